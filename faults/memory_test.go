package faults

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

func TestF38(t *testing.T) {
	fault(t, "F38", "one subject with more scopes than the memory store holds", "no other subject's limits change", func(r *report) {
		for _, things := range []string{"100/1h", "1/1h"} { // things with room, and things at their limit
			most := pick(1_000_000, 5_000)
			store, err := memorystore.New(memorystore.Config{MaxSubjects: most})
			if err != nil {
				r.Fatal(err)
			}
			defer store.Close()
			conf, err := config.Parse("stint.yaml", []byte(`
tiers: [{name: anyone, identity: ip, limits: unlimited}]
policies:
  - {name: things, match: {path: "/things/{id}"}, identity: everyone, per: [id], limits: `+things+`}
  - {name: login, match: {method: POST, path: /login}, identity: ip, limits: 5/15m}
`))
			if err != nil {
				r.Fatal(err)
			}
			guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				r.Fatal(err)
			}
			ask := func(method, path string, ip int) bool {
				in := policy.Input{Method: method, Host: "h", Path: path, Header: http.Header{},
					Peer: netip.AddrFrom4([4]byte{10, byte(ip >> 16), byte(ip >> 8), byte(ip)})}
				var v policy.Verdict
				if err := guard.Decide(r.Context(), &in, &v); err != nil {
					r.Fatal(err)
				}
				return v.Decision.Allowed
			}
			for i := range most + 100 {
				ask("GET", fmt.Sprintf("/things/%d", i), i%50)
			}
			addresses := pick(2000, 50)
			got := make([]int, addresses)
			next := most
			for range 40 {
				for ip := range got {
					if ask("POST", "/login", ip) {
						got[ip]++
					}
					ask("GET", fmt.Sprintf("/things/%d", next), ip)
					next++
				}
			}
			over := 0
			for _, n := range got {
				if n > 5 {
					over++
				}
			}
			if over > 0 {
				r.Errorf("%d of %d addresses logged in more than 5 times in 15 minutes", over, addresses)
			}
			r.saw("%d things of %s: %d of %d others over their limit", next, things, over, addresses)
		}
	})
}

func TestF44(t *testing.T) {
	faultAlone(t, "F44", "few large keys after many small ones in the memory store", "at most 1.1 of the byte cap", func(r *report) {
		most := pick(int64(64<<20), 8<<20)
		before := heap()
		store, err := memorystore.New(memorystore.Config{MaxBytes: most})
		if err != nil {
			r.Fatal(err)
		}
		defer store.Close()
		var peak atomic.Int64
		ask := func(subject string) {
			if _, err := store.Take(context.Background(), request(subject, stint.PerHour(5))); err != nil {
				r.Error(err)
			}
			for n, old := store.Stats().Bytes, peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() {
			}
		}
		for i := range int(most / 100) {
			ask(fmt.Sprint("small:", i))
		}
		long := strings.Repeat("x", 60<<10)
		var group sync.WaitGroup
		for g := range 64 {
			group.Go(func() {
				for i := range int(most / (64 << 17)) {
					ask(fmt.Sprint(g, ":", i, long))
				}
			})
		}
		group.Wait()
		took := heap() - before
		if float64(peak.Load()) > 1.1*float64(most) {
			r.Errorf("%d bytes; want at most 1.1 of %d", peak.Load(), most)
		}
		r.saw("at most %.2f of the cap counted, heap +%.2f of it", float64(peak.Load())/float64(most), float64(took)/float64(most))
		if float64(took) > 1.2*float64(most) {
			r.Errorf("the heap grew by %d bytes; want little more than %d", took, most)
		}
	})
}
