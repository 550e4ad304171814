package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/browsertest"
)

const (
	// loadRate is in decisions a second, of which a batch has some.
	loadRate  = 20_000
	loadBatch = 100
	// callers make batches at the same time.
	callers = 4
)

// TestLoad: at thousands of decisions a second the page goes on, and does what it is told. How fast
// both are is in the log of the test.
func TestLoad(t *testing.T) {
	r := start(t, "tiers:\n  - {name: all, identity: [user, ip], limits: 1000000/1m}\npolicies:\n  - {name: hot, match: {path: /hot}, limits: 100/1m}\n")
	page := browsertest.Start(t).Page(t, 1280, 900)
	r.open(page, "overview")
	load := r.press()
	page.Wait(drawn + " !== ''")
	browsertest.Eval[bool](page, `(() => {
		window.frames = { longest: 0, count: 0, task: 0 };
		new PerformanceObserver((list) => {
			for (const task of list.getEntries()) window.frames.task = Math.max(window.frames.task, task.duration);
		}).observe({ entryTypes: ["longtask"] });
		const frame = (before) => requestAnimationFrame((now) => {
			window.frames.longest = Math.max(window.frames.longest, now - before);
			window.frames.count++;
			frame(now);
		});
		frame(performance.now());
		return true;
	})()`)
	before := ""
	for range 4 { // seconds
		page.Wait(drawn + " !== " + browsertest.Quote(before))
		before = browsertest.Eval[string](page, drawn)
	}
	legend := page.Text(".overview .main .legend")
	opened := browsertest.Eval[float64](page, `new Promise((resolve) => {
		const began = performance.now();
		document.querySelector("nav [data-view=violations]").click();
		const look = () => requestAnimationFrame(() => document.querySelector("section.violations tbody tr") ? resolve(performance.now() - began) : look());
		look();
	})`)
	page.WaitText("section.violations .counts", "counted but not listed")
	page.Click("nav [data-view=overview]")
	page.Wait(drawn + " !== " + browsertest.Quote(before))
	frames := browsertest.Eval[struct{ Longest, Count, Task float64 }](page, "window.frames")
	rate := load.end()
	t.Logf("%.0f decisions/s made; the page says %q", rate, legend)
	t.Logf("%.0f frames, the longest pause between two %.0f ms, the longest task of the page %.0f ms; a view opened in %.0f ms",
		frames.Count, frames.Longest, frames.Task, opened)
}

// pressure is load until it is ended.
type pressure struct {
	cancel context.CancelFunc
	work   sync.WaitGroup
	began  time.Time
	made   atomic.Int64
}

// press begins to make batches of requests.
func (r *rig) press() *pressure {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pressure{cancel: cancel, began: time.Now()}
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	client := &http.Client{Transport: transport}
	r.t.Cleanup(func() {
		p.end()
		transport.CloseIdleConnections()
	})
	for caller := range callers {
		body := batch(r.t, caller)
		p.work.Go(func() {
			for ctx.Err() == nil {
				if float64(p.made.Load()) > loadRate*time.Since(p.began).Seconds() {
					time.Sleep(time.Millisecond)
					continue
				}
				response, err := client.Post(r.api+"/v1/batch", "application/json", bytes.NewReader(body))
				if err != nil {
					r.t.Errorf("batch: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
				_ = response.Body.Close()
				p.made.Add(loadBatch)
			}
		})
	}
	return p
}

// end returns how many decisions a second were made.
func (p *pressure) end() float64 {
	p.cancel()
	p.work.Wait()
	return float64(p.made.Load()) / time.Since(p.began).Seconds()
}

// batch is a body with requests of some users, of which one in ten is soon over a limit.
func batch(t *testing.T, caller int) []byte {
	t.Helper()
	var list []map[string]any
	for i := range loadBatch {
		q := question(fmt.Sprintf("u%d-%d", caller, i%20))
		q["mode"] = "take"
		if i%10 == 0 {
			q["path"] = "/hot"
		}
		list = append(list, q)
	}
	body, err := json.Marshal(map[string]any{"requests": list})
	if err != nil {
		t.Fatal(err)
	}
	return body
}
