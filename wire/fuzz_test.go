package wire

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func FuzzReadArgs(f *testing.F) {
	f.Add("cmd=known&nodes=a+b%20c", "x=%41&y", "")
	f.Add("", "", "3")
	f.Add("%&%%=%zz&=&", "a=1;b", "x")
	f.Fuzz(func(t *testing.T, query, encoded, post string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(encoded))
		r.URL.RawQuery = query
		half := len(encoded) / 2
		r.Header = http.Header{"X-Hgarg-1": {encoded[:half]}, "X-Hgarg-2": {encoded[half:]}, "X-Hgargs-Post": {post}}
		Command(r)
		args, err := readArgs(r, Limits{MaxArgs: 10}.withDefaults())
		if err != nil {
			return
		}
		total := 0
		for k, v := range args {
			total += len(k) + len(v)
		}
		if total > len(query)+len(encoded) {
			t.Errorf("%q and %q give %d bytes", query, encoded, total)
		}
	})
}

// FuzzArgsAgainstNetURL compares with the strict decoder where that has an
// answer.
func FuzzArgsAgainstNetURL(f *testing.F) {
	f.Add("a=1&b=%20+&c")
	f.Fuzz(func(t *testing.T, query string) {
		want, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		got := Args{}
		if err := got.add(query, Limits{MaxArgs: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
		for k, v := range want {
			if got[k] != v[0] {
				t.Errorf("%q: %q is %q, want %q", query, k, got[k], v[0])
			}
		}
	})
}

func FuzzBatchItem(f *testing.F) {
	f.Add("known nodes=a:e:c:s:o,x=")
	f.Add("heads ")
	f.Add("x :=::=")
	f.Fuzz(func(t *testing.T, item string) {
		name, args, err := parseBatchItem(item, Limits{}.withDefaults())
		if err != nil {
			return
		}
		// What it means survives being written and read again.
		again := name + " "
		for k, v := range args {
			again += batchEscapes.Replace(k) + "=" + batchEscapes.Replace(v) + ","
		}
		name2, args2, err := parseBatchItem(again, Limits{}.withDefaults())
		if _, empty := args[""]; err != nil || name2 != name || !mapsEqual(args, args2) && !empty {
			t.Errorf("%q gives %q %q, and %q gives %q %q, %v", item, name, args, again, name2, args2, err)
		}
	})
}

func FuzzParseHeads(f *testing.F) {
	f.Add(hexOf("force"))
	f.Add(hexOf("hashed") + " " + strings.Repeat("ab", 20))
	f.Add(strings.Repeat("ab", 20) + " " + strings.Repeat("cd", 20))
	f.Fuzz(func(t *testing.T, arg string) {
		h, err := ParseHeads(arg)
		if err == nil && len(h.Nodes) > len(arg)/40 {
			t.Errorf("%d nodes in %q", len(h.Nodes), arg)
		}
	})
}

func FuzzGetBundleArgs(f *testing.F) {
	f.Add("HG20,bundle2=HG20%0Achangegroup%3D01%2C02", "1")
	f.Fuzz(func(t *testing.T, caps, cg string) {
		args, err := parseGetBundle(Args{"bundlecaps": caps, "cg": cg})
		if err != nil || len(args.Caps) > len(caps) {
			t.Errorf("%q: %+v, %v", caps, args, err)
		}
	})
}
