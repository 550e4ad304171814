package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// launchLogging starts a gateway that logs the query of every request.
func launchLogging(t *testing.T, binary string) *daemon {
	t.Helper()
	upstream := "http://" + launch(t, binary, "serve", "--http", "127.0.0.1:0").at(server.HTTP)
	config := testkit.TempFile(t, "stint.yaml", "tiers:\n  - {name: all, identity: ip, limits: unlimited}\n")
	return launch(t, binary, "gateway", "--listen", "127.0.0.1:0", "--upstream", upstream, "--config", config,
		"--access-log-query")
}

var longQuery = "/livez?" + strings.Repeat("x", 250)

// dropped returns how many log records a daemon has dropped, according to its metrics.
func (d *daemon) dropped() int64 {
	d.t.Helper()
	_, text := d.get(server.Admin, "/metrics")
	_, text, _ = strings.Cut(text, "\nstint_log_dropped_total ")
	text, _, _ = strings.Cut(text, "\n")
	n := testkit.Must(strconv.ParseFloat(text, 64))(d.t)
	return int64(n)
}

// overflow sends requests until at least the given number of log records are dropped. All requests
// must succeed.
func (d *daemon) overflow(least int64) {
	d.t.Helper()
	for requests := 0; d.dropped() < least; {
		if requests > 100_000 {
			d.t.Fatal("nothing is dropped")
		}
		for range 100 {
			requests++
			if status, body := d.get(server.HTTP, longQuery); status != http.StatusOK {
				d.t.Fatalf("request %d: got %d, %s", requests, status, body)
			}
		}
	}
}

var droppedRecords = regexp.MustCompile(`level=ERROR msg="stint: log records were dropped.*" dropped=\d+`)

// stalledLog checks a daemon whose log is not read for a while. It responds to requests and probes,
// the doctor and the log report lost records, and the log continues. SIGTERM ends a daemon whose
// log is stalled.
func stalledLog(t *testing.T, binary string) {
	d := launchLogging(t, binary)
	d.get(server.HTTP, "/livez")
	d.stall.Lock()
	stalled := true
	defer func() {
		if stalled {
			d.stall.Unlock()
		}
	}()
	d.overflow(1)
	for _, probe := range []string{"/livez", "/readyz"} {
		if status, _ := d.get(server.Admin, probe); status != http.StatusOK {
			t.Errorf("%s: got %d, want 200", probe, status)
		}
	}
	testkit.Eventually(t, "doctor reports it", func() bool {
		found := execute(t, "", "doctor", "--server", "http://"+d.at(server.Admin))
		return strings.Contains(found.stdout, "LogDropped: ")
	})
	d.stall.Unlock()
	stalled = false

	testkit.Eventually(t, "the log says how many are missing", func() bool {
		return droppedRecords.MatchString(d.log.String())
	})
	d.get(server.HTTP, "/livez?last")
	d.log.Await(t, "query=last ")
	missing := d.dropped()
	d.stall.Lock()
	stalled = true
	d.overflow(missing + 1)
	d.signal(syscall.SIGTERM)
	if code := d.exit(); code != exitGood {
		t.Errorf("exit code %d, want 0", code)
	}
}

// closedLog checks that a daemon whose log is closed serves, and ends on SIGTERM.
func closedLog(t *testing.T, binary string) {
	d := launchLogging(t, binary)
	d.at(server.HTTP)
	d.at(server.Admin)
	if err := d.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	d.overflow(1)
	d.signal(syscall.SIGTERM)
	if code := d.exit(); code != exitGood {
		t.Errorf("%v, want the exit code 0", d.cmd.ProcessState)
	}
}

// TestOtherLogs checks that packages without a logger of their own write to the daemon's log queue.
func TestOtherLogs(t *testing.T) {
	var stderr bytes.Buffer
	s := &system{Stderr: &stderr}
	s.newLogger(slog.LevelInfo, "json")
	log.Print("from log")
	slog.Info("from slog", "after", 1500*time.Millisecond)
	fmt.Fprintln(grpcErrors{}, "2026/01/02 03:04:05 ERROR: [transport] from gRPC")
	s.report(errors.New("the end"))
	for _, want := range []string{`"level":"INFO","msg":"from log"`, `"msg":"from slog","after_seconds":1.5`,
		`"level":"ERROR","msg":"grpc: [transport] from gRPC"`} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("got\n%s, want a line with %s", &stderr, want)
		}
	}
	if !strings.HasSuffix(stderr.String(), "\nstint: the end\n") {
		t.Errorf("got\n%s, want the error at the end", &stderr)
	}
}
