package e2e

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
)

const (
	// screenshotsEnv names a directory for pictures of every view.
	screenshotsEnv = "STINT_SCREENSHOTS"
	// screenshotsAfter is how long the demo runs before: there is something to see of everything,
	// an alert too, and minutes of what is on trial.
	screenshotsAfter = 5*time.Minute + 10*time.Second
	// screenshotsMost is what a picture may have in bytes.
	screenshotsMost = 200_000
)

// TestScreenshots makes the pictures of the documentation, of the demo as anybody can run it.
func TestScreenshots(t *testing.T) {
	directory := os.Getenv(screenshotsEnv)
	if directory == "" {
		t.Skip("pictures are made when " + screenshotsEnv + " names a directory for them; see make screenshots")
	}
	demo := startDemo(t)
	operator := testkit.Must(control.NewClient(demo, ""))(t)
	time.Sleep(screenshotsAfter)
	browser := browsertest.Start(t)
	for _, scheme := range []string{"light", "dark"} {
		mallory := control.Target{Subject: "user:mallory"} // who has another chance, and is denied by limits again
		_, banned := operator.Ban(t.Context(), control.Target{Subject: "ip:203.0.113.99"}, time.Hour)
		_, reset := operator.Reset(t.Context(), mallory)
		_, unbanned := operator.Unban(t.Context(), mallory)
		if err := errors.Join(banned, reset, unbanned); err != nil {
			t.Fatal(err)
		}
		page := browser.Page(t, 1280, 900)
		page.Prefer("prefers-color-scheme", scheme)
		page.Open(demo)
		for _, view := range browsertest.Eval[[]string](page, `[...document.querySelectorAll("nav [data-view]")].map((link) => link.dataset.view)`) {
			if !slices.ContainsFunc(shots, func(s shot) bool { return s.name() == view }) {
				t.Errorf("there is no picture of %s", view)
			}
		}
		for _, s := range shots {
			page.ResizeDense(1280, s.height, max(1, s.density))
			page.Open(demo + "/?" + scheme + "#/" + s.address)
			page.WaitText("#link", "Live")
			page.Wait("document.querySelector(" + browsertest.Quote(s.ready) +
				") && document.getAnimations().length === 0")
			save(t, page, filepath.Join(directory, s.name()+"-"+scheme+".png"), s.all)
		}
	}
}

// save makes a picture of the page, or of what fits of it.
func save(t *testing.T, page *browsertest.Page, path string, all bool) {
	t.Helper()
	page.Screenshot(path, all)
	size := testkit.Must(shrink(path))(t)
	if size > screenshotsMost {
		t.Errorf("%s has %d bytes, want at most %d", path, size, screenshotsMost)
	}
}

// shot is a picture of a view, as high as what there is to see of it.
type shot struct {
	address, ready string
	height         int
	all            bool    // and not only what fits
	density        float64 // device pixels per pixel; 0 is 1
	file           string  // its name, if not that of the view
}

func (s shot) name() string {
	name, _, _ := strings.Cut(s.address, "/")
	return cmp.Or(s.file, name)
}

var shots = []shot{
	{address: "overview", ready: ".overview .top li", height: 900, all: true},
	{address: "overview", ready: ".overview .top li", height: 632, density: 2, file: "readme"},
	{address: "subject/user:mallory", ready: ".subject .card.full", height: 900},
	{address: "violations", ready: ".violations tbody tr:nth-child(5)", height: 900},
	{address: "offenders", ready: ".offenders tbody tr", height: 520},
	{address: "bans", ready: ".bans tbody tr", height: 520},
	{address: "limits", ready: ".limits tbody tr", height: 900, all: true},
	{address: "shadow", ready: ".shadow figure svg", height: 900, all: true},
	{address: "outbound", ready: ".outbound .card", height: 600},
	{address: "audit", ready: ".audit tbody tr", height: 520},
}

// startDemo runs the demo of the command line until the test ends, and returns where its dashboard
// is.
func startDemo(t *testing.T) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, proxytest.BuildStint(t), "demo", "--listen", anywhere, "--admin", anywhere)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.Stderr = os.Stderr
	out := testkit.Must(command.StdoutPipe())(t)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = command.Wait() // it was signaled to end
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if name == "Dashboard" {
			return strings.TrimSuffix(value, "/")
		}
	}
	t.Fatal("the demo does not say where it is")
	return ""
}
