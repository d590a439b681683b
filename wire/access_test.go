package wire

import (
	"testing"

	"vcsd/config"
)

func TestLoginHelps(t *testing.T) {
	everybody := []string{"*"}
	ann := []string{"ann"}
	tests := []struct {
		name             string
		web              config.Web
		read, pull, push bool
	}{
		{"nobody may push", config.Web{AllowPull: true}, true, true, false},
		{"somebody may push", config.Web{AllowPull: true, AllowPush: ann}, true, true, true},
		{"whoever logs in", config.Web{AllowPull: true, AllowPush: everybody, DenyPush: []string{"eve"}}, true, true, true},
		{"the only one is denied", config.Web{AllowPull: true, AllowPush: ann, DenyPush: ann}, true, true, false},
		{"all are denied", config.Web{AllowPull: true, AllowPush: ann, DenyPush: everybody}, true, true, false},
		{"another may read than push", config.Web{AllowPull: true, AllowRead: []string{"bob"}, AllowPush: ann}, true, true, false},
		{"no pulling", config.Web{AllowPush: ann}, true, false, true},
		{"no reading", config.Web{AllowPull: true, AllowPush: everybody, DenyRead: everybody}, false, false, false},
		{"an empty name", config.Web{AllowPull: true, AllowPush: []string{""}}, true, true, false},
	}
	for _, tt := range tests {
		for perm, want := range map[Permission]bool{Read: tt.read, Pull: tt.pull, Push: tt.push} {
			if got := LoginHelps(&tt.web, perm); got != want {
				t.Errorf("%s: LoginHelps(%d) = %v, want %v", tt.name, perm, got, want)
			}
		}
	}
}
