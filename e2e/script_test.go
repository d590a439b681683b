package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vcsd/internal/hgtest"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// scriptState is what the commands of one script share.
type scriptState struct {
	tb     testing.TB
	server *hgtest.Server // nil before "serve"
}

const stateKey = "e2e"

// scriptCommands are those that scripts have beside the usual ones:
//
//	hg ARG...            hg itself; $HGRCPATH names a user and nothing else
//	untilhg ARG...       hg itself, again and again until it succeeds
//	serve [SETTING...]   serve all of $WORK/srv, by section.key=value settings, and set $URL, and $HOST behind its scheme;
//	                     first argument -stock: with stock hg whatever is tested
//	stop                 end the server with SIGTERM
//	kill                 end the server with SIGKILL
//	start                start it again with the same settings, on another port, and set $URL
//	logged N REGEXP      wait until N lines of what the server printed match, and no more
//	vcsd ARG...          vcsd itself; $STDOUT is what it printed
//	certs DIR            make certificates there: see hgtest.WriteCertificates
//	fingerprint HOST FILE  expect a server's certificate to be the one in a file
//	proxy VAR URL HEADER=VALUE...  start a proxy that sets these headers; $VAR is its URL
//	unpack NAME DIR      unpack testdata/repos/NAME as DIR
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"hg": func(ts *testscript.TestScript, neg bool, args []string) {
		err := ts.Exec("hg", args...)
		if (err != nil) != neg {
			ts.Fatalf("hg %s: error %v, want an error: %v", strings.Join(args, " "), err, neg)
		}
	},
	"untilhg": func(ts *testscript.TestScript, _ bool, args []string) {
		for end := time.Now().Add(time.Minute); ; {
			err := ts.Exec("hg", args...)
			if err == nil {
				return
			}
			if time.Now().After(end) {
				ts.Fatalf("hg %s does not succeed: %v", strings.Join(args, " "), err)
			}
		}
	},
	"serve": func(ts *testscript.TestScript, _ bool, args []string) {
		o := hgtest.ServerOptions{Root: ts.MkAbs(filepath.Join(ts.Getenv("WORK"), "srv")), Config: args, ByRoot: true}
		if len(args) > 0 && args[0] == "-stock" {
			o.Stock, o.Config = true, args[1:]
		}
		st := state(ts)
		st.server = hgtest.Serve(st.tb, o)
		setURL(ts, st.server)
	},
	"logged": func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Check(logged(state(ts).server, args))
	},
	"vcsd": func(ts *testscript.TestScript, neg bool, args []string) {
		err := ts.Exec(hgtest.Vcsd(state(ts).tb), args...)
		if (err != nil) != neg {
			ts.Fatalf("vcsd %s: error %v, want an error: %v", strings.Join(args, " "), err, neg)
		}
		ts.Setenv("STDOUT", strings.TrimSpace(ts.ReadFile("stdout")))
	},
	"fingerprint": func(ts *testscript.TestScript, _ bool, args []string) {
		checkFingerprint(state(ts).tb, args[0], ts.MkAbs(args[1]))
	},
	"proxy": func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv(args[0], startProxy(state(ts).tb, args[1], args[2:]))
	},
	"certs": func(ts *testscript.TestScript, _ bool, args []string) {
		hgtest.WriteCertificates(state(ts).tb, ts.MkAbs(args[0]))
	},
	"stop": func(ts *testscript.TestScript, _ bool, _ []string) { state(ts).server.Stop() },
	"kill": func(ts *testscript.TestScript, _ bool, _ []string) { state(ts).server.Kill() },
	"start": func(ts *testscript.TestScript, _ bool, _ []string) {
		s := state(ts).server
		s.Start()
		setURL(ts, s)
	},
	"unpack": func(ts *testscript.TestScript, _ bool, args []string) {
		if len(args) != 2 {
			ts.Fatalf("usage: unpack NAME DIR")
		}
		ts.Check(hgtest.CopyTree(hgtest.Repo(state(ts).tb, args[0]), ts.MkAbs(args[1])))
	},
}

// setURL tells the script where the server listens: $URL, and $HOST behind its
// scheme.
func setURL(ts *testscript.TestScript, s *hgtest.Server) {
	ts.Setenv("URL", s.URL)
	_, host, _ := strings.Cut(s.URL, "://")
	ts.Setenv("HOST", host)
}

func state(ts *testscript.TestScript) *scriptState { return ts.Value(stateKey).(*scriptState) }

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: scriptCommands,
		Setup: func(e *testscript.Env) error {
			tb := e.T().(testing.TB)
			e.Values[stateKey] = &scriptState{tb: tb}
			e.Vars = append(e.Vars, hgtest.New(tb).Environ()...)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			return cond == "stock" && hgtest.UseStock() || cond == "vcsd" && !hgtest.UseStock(), nil
		},
	})
}
