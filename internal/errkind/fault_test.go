package errkind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

func TestDiagnose(t *testing.T) {
	failure := func(kind stint.StoreErrorKind, err error) error {
		return &stint.StoreError{Op: "take", Kind: kind, Err: err}
	}
	reply := func(text string) error {
		kind, _ := OfReply(text)
		return failure(kind, errors.New(text))
	}
	late := failure(stint.KindTimeout, context.DeadlineExceeded)
	refused := failure(stint.KindUnreachable, errors.New("connection refused"))
	for _, test := range []struct {
		err     error
		answers bool
		want    string
	}{
		{late, false, Silent},
		{late, true, Slow},
		{failure(stint.KindTimeout, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}), false, Unreachable},
		{refused, false, Unreachable},
		{failure(stint.KindUnreachable, &NodeError{Err: errors.New("connection refused")}), true, Node},
		{reply("NOAUTH Authentication required."), true, Auth},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), true, Full},
		{reply("BUSY Redis is busy running a script."), false, Script},
		{reply("LOADING Redis is loading the dataset in memory"), false, Loading},
		{reply("CLUSTERDOWN Hash slot not served"), true, Node},
		{reply("MISCONF Redis is configured to save RDB snapshots"), true, Disk},
		{reply("NOREPLICAS Not enough good replicas to write."), true, Disk},
		{reply("READONLY You can't write against a read only replica."), true, ReadOnly},
		{reply("ERR unknown command"), true, Other},
		{errors.New("no store"), true, Other},
		{nil, false, Other},
	} {
		if got := Diagnose(test.err, test.answers); got != test.want {
			t.Errorf("%v, pings are answered: %v: got %s, want %s", test.err, test.answers, got, test.want)
		}
	}
}

// The documentation has every fault with the texts that page, alerts and log show.
func TestFaultsAreDocumented(t *testing.T) {
	for file, row := range map[string]func(Fault) string{
		"../../docs/troubleshooting.md": func(f Fault) string {
			return fmt.Sprintf("\n| `%s` | Redis %s | %s | %s |\n", f.Name, f.Is, f.Why, f.Fix)
		},
		"../../docs/alerts.md": func(f Fault) string { return fmt.Sprintf("`%s`: %s", f.Name, f.Is) },
	} {
		text := testkit.Must(os.ReadFile(file))(t)
		for _, f := range Faults {
			if want := row(f); !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %s", file, want)
			}
		}
	}
}
