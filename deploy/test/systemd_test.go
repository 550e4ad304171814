package deploy

import (
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestUnit: systemd accepts the unit and finds it safe, with an exposure of at most 2 of 10. The
// program starts with the unit's command line and environment, reports that it is ready, and ends.
func TestUnit(t *testing.T) {
	text := testkit.ReadFile(t, filepath.Join("..", "stint.service"))
	directory := t.TempDir()
	binary := proxytest.BuildStint(t) // not installed here
	unit := proxytest.Install(t, directory, "../stint.service", "\nExecStart=stint ", "\nExecStart="+binary+" ")
	for _, args := range [][]string{
		{"verify", "--man=no", unit},
		{"security", "--offline=true", "--threshold=20", "--no-pager", unit},
	} {
		if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil ||
			args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v (it is in Debian's package systemd)\n%s", strings.Join(args, " "), err, out)
		}
	}

	set := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(text, -1) {
		set[m[1]] = m[2]
	}
	soft, err := syntax.Size(strings.TrimPrefix(set["Environment"], "GOMEMLIMIT="))
	hard, err2 := syntax.Size(set["MemoryMax"] + "iB")
	if err != nil || err2 != nil || soft > hard/5*4 || soft < hard/2 {
		t.Errorf("GOMEMLIMIT is %d (%v) and the memory %d (%v); want at most four fifths", soft, err, hard, err2)
	}

	socket := filepath.Join(directory, "notify")
	manager := testkit.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}))(t)
	defer manager.Close()
	if err := manager.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, filepath.Join(directory, "stint.yaml"), "tiers: [{name: all, identity: ip, limits: 3/1h}]\n")
	args := strings.Fields(strings.ReplaceAll(set["ExecStart"], "/etc/stint/", directory+"/"))
	program := exec.Command(binary, append(args[1:], "--http=127.0.0.1:0", "--admin=127.0.0.1:0")...)
	program.Env = []string{set["Environment"], "NOTIFY_SOCKET=" + socket, "STATE_DIRECTORY=" + directory}
	p := proxytest.Run(t, program)
	reports := func(want string) {
		t.Helper()
		message := make([]byte, 100)
		if n, err := manager.Read(message); err != nil || string(message[:n]) != want {
			t.Fatalf("got the report %s, %v; want %s", message[:n], err, want)
		}
	}
	reports("READY=1")
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil { // ExecReload
		t.Fatal(err)
	}
	reports("RELOADING=1")
	reports("READY=1")
	wantEnd(t, p)
	reports("STOPPING=1")
}
