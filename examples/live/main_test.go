package main

import (
	"bytes"
	"errors"
	"flag"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/internal/redistest"
)

func TestRun(t *testing.T) {
	p := start(t, "-for", "2s")
	url := p.url()
	if got, want := get(t, url, "198.51.100.1"), http.StatusOK; got != want {
		t.Errorf("the page: status %d, want %d", got, want)
	}
	if got, want := admitted(t, url+"/structures/4hhb", "198.51.100.2", 25), 20; got != want {
		t.Errorf("%d of an anonymous burst of 25 are admitted, want %d", got, want)
	}
	if got, want := admitted(t, url+"/static/logo.svg", "198.51.100.2", 5), 5; got != want {
		t.Errorf("%d of 5 assets are served, want %d", got, want)
	}
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	out := p.out.String()
	last := out[strings.LastIndex(out, "subject "):]
	for _, want := range []string{
		"subject                habit                  tier       allowed  denied  windows\n",
		"ip:203.0.113.7:global  one every 2 s          anonymous ",
		"user:bob:structure     10 at once, every 2 s  free      ",
		"user:carol:simulate    one every 4 s          pro       ",
		"user:mallory:structure 50 a second            free      ",
		"internal:indexer       10 a second            internal  ",
		"ip:198.51.100.2:global you, or somebody else  anonymous       20       5  [##########] 20 of 10/1m burst 2x, 20 of 100/1h, 20 of 1000/1d, work 20 of 100/1h\n",
		"igdb:api               6 workers that wait    outbound  ",
		"limits: examples/tiers/stint.yaml, built in",
	} {
		if !strings.Contains(last, want) {
			t.Errorf("the last table lacks %q:\n%s", want, last)
		}
	}
}

func TestAbuserIsBanned(t *testing.T) {
	p := start(t)
	p.wait(`user:mallory:structure 50 a second +free +60 +\d+  banned for (1m0s|59s)`)
	if err := p.stop(); err != nil {
		t.Errorf("interrupted: %v, want no error", err)
	}
}

func TestConfigIsReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stint.yaml")
	write := func(old, new string) {
		t.Helper()
		if err := os.WriteFile(file, bytes.ReplaceAll(tiers.YAML, []byte(old), []byte(new)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("", "")
	p := start(t, "-config", file)
	url := p.url() + "/structures/4hhb"
	p.wait(`changes: 0`)
	write("10/1m burst 2x", "3/1m")
	p.wait(`changes: 1`)
	if got, want := admitted(t, url, "198.51.100.3", 5), 3; got != want {
		t.Errorf("%d admitted under the new limit, want %d", got, want)
	}
	write("10/1m burst 2x", "nonsense")
	p.wait(`the last good .*stint.yaml; what is there now is wrong: .*stint.yaml:\d+`)
	if got, want := admitted(t, url, "198.51.100.4", 5), 3; got != want {
		t.Errorf("%d admitted while the file is wrong, want %d as before", got, want)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestTwoShareRedis(t *testing.T) {
	redis := "redis://" + redistest.Start(t).Addr()
	a, b := start(t, "-redis", redis), start(t, "-redis", redis)
	got := admitted(t, a.url()+"/structures/4hhb", "198.51.100.5", 12) + admitted(t, b.url()+"/structures/4hhb", "198.51.100.5", 12)
	if want := 20; got != want {
		t.Errorf("%d admitted by the two together, want %d", got, want)
	}
	if err := errors.Join(a.stop(), b.stop()); err != nil {
		t.Error(err)
	}
}

func TestMistakes(t *testing.T) {
	taken, err := net.Listen("tcp", anyAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("tiers: nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args string
		want string
	}{
		{"extra", `unexpected argument "extra"; see -help`},
		{"-speed 3", "flag provided but not defined: -speed; see -help"},
		{"-for soon", `invalid value "soon" for flag -for`},
		{"-for -1s", "-for -1s: want a time such as 30s, or 0"},
		{"-http nowhere", "-http: listen tcp: address nowhere: missing port"},
		{"-http " + taken.Addr().String(), "address already in use"},
		{"-config none.yaml", "none.yaml"},
		{"-config " + wrong, "wrong.yaml:1: tiers"},
		{"-redis nonsense", "want redis://"},
	}
	for _, test := range tests {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(test.args), &out)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q in it", test.args, err, test.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: prints %q beside the error", test.args, out.String())
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error %v, want %v", err, flag.ErrHelp)
	}
	for _, want := range []string{"-http address", "-config file", "-redis URL", "-for duration"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("-help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestUsualAddressIsTaken(t *testing.T) {
	for range 2 {
		l, err := listen("")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
