package redistest

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestServerEndsWithTheTestBinary runs itself in a child process that starts a server, kills the
// child, and checks that the server ends, too.
func TestServerEndsWithTheTestBinary(t *testing.T) {
	const child = "STINT_REDISTEST_CHILD"
	if os.Getenv(child) != "" {
		os.Stdout.WriteString("pid " + strconv.Itoa(Start(t).proc.pid) + "\n")
		select {} // wait to be killed
	}

	if testing.Short() {
		t.Skip("needs a Redis server: make test runs it")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	// The child cannot clean up, so it uses a temporary directory of this test.
	cmd.Env = append(os.Environ(), child+"=1", "TMPDIR="+t.TempDir())
	out := testkit.Must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	server := 0
	for lines := bufio.NewScanner(out); server == 0 && lines.Scan(); {
		if pid, found := strings.CutPrefix(lines.Text(), "pid "); found {
			server = testkit.Must(strconv.Atoi(pid))(t)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // an error, because it was killed
	if server == 0 {
		t.Fatal("the child did not start a server")
	}
	await(t, "the server has ended", func() error {
		if err := syscall.Kill(server, 0); !errors.Is(err, syscall.ESRCH) && !isZombie(server) {
			return errors.New("it still runs")
		}
		return nil
	})
}

// isZombie reports whether a process has ended but has not been reaped. In a container, its new
// parent may never reap it.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
