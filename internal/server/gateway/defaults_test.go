package gateway

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/guardtest"
)

// TestSettings: those of the program come first, then those of the configuration, then the
// documented defaults.
func TestSettings(t *testing.T) {
	const s = time.Second
	set := "gateway: {connect_timeout: 1s, response_timeout: 2s, body_timeout: 3s, min_body_rate: 4, " +
		"send_timeout: 5s, max_body: 6, unusual_paths: pass}\n"
	program := config.Gateway{DialTimeout: 11 * s, ResponseHeaderTimeout: 12 * s, BodyTimeout: 13 * s, MinBodyRate: 14,
		SendTimeout: 15 * s, MaxBody: 16}
	type values struct {
		dial, header, body time.Duration
		rate               int64
		send               time.Duration
		most               int64
		pass               bool
	}
	for _, test := range []struct {
		name    string
		program config.Gateway
		set     string
		want    values
	}{
		{"defaults", config.Gateway{}, "", values{5 * s, 60 * s, 10 * s, 500, 30 * s, 0, false}},
		{"of the configuration", config.Gateway{}, set, values{1 * s, 2 * s, 3 * s, 4, 5 * s, 6, true}},
		{"of the program", program, set, values{11 * s, 12 * s, 13 * s, 14, 15 * s, 16, true}},
		{"of the program alone", config.Gateway{BodyTimeout: -1, PassUnusualPaths: true}, "",
			values{5 * s, 60 * s, 0, 500, 30 * s, 0, true}},
	} {
		set := guardtest.Parse(t, "tiers: [{name: all, identity: ip, limits: 1/1m}]\n"+test.set)
		p := (&Gateway{config: test.program}).newSettings(set)
		got := values{p.DialTimeout, p.ResponseHeaderTimeout, p.BodyTimeout, int64(p.MinBodyRate), p.SendTimeout,
			int64(p.MaxBody), p.PassUnusualPaths}
		if got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}
