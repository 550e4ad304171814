// Package typescript is the client of the JSON API for TypeScript. It has no Go code: its test runs
// those of the package, with Node.
package typescript

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestPackage runs the tests of the package against real servers.
func TestPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts other programs, and needs what make setup installs")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		t.Fatal("the package's tools are missing: make setup installs them")
	}
	stint := os.Getenv("STINT_BINARY")
	if stint == "" {
		stint = filepath.Join(t.TempDir(), "stint")
		if out, err := exec.Command("go", "build", "-o", stint, "../../cmd/stint").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	before := testkit.Must(os.ReadFile("src/types.ts"))(t)
	test := exec.Command("npm", "test")
	test.Env = append(os.Environ(), "STINT_BINARY="+stint)
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if after, err := os.ReadFile("src/types.ts"); err != nil || string(after) != string(before) {
		t.Errorf("src/types.ts was not what openapi.json says (%v): commit it as npm run build writes it", err)
	}
}
