package reload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// TestLinksOnTheWay notices that a link further up in a path leads elsewhere, and one that such a
// link leads through.
func TestLinksOnTheWay(t *testing.T) {
	root := t.TempDir()
	link := func(to, name string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.Symlink(to, name+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"1", "2", "3"} {
		testkit.WriteFile(t, filepath.Join(root, "releases", version, "rules", "book"), version)
	}
	if err := os.Mkdir(filepath.Join(root, "links"), 0o700); err != nil {
		t.Fatal(err)
	}
	link("../releases/1", "links/latest")
	link(filepath.Join("links", "latest"), "current")
	b := open(t, Config{Paths: []string{filepath.Join(root, "current", "rules", "book")}}, true)
	b.says("1")
	link("../releases/2", "links/latest")
	b.says("2")
	link(filepath.Join("releases", "3"), "current")
	b.says("3")
	testkit.WriteFile(t, filepath.Join(root, "releases", "3", "rules", "book"), "4")
	b.says("4")
}

// TestLinksInCircles end somewhere.
func TestLinksInCircles(t *testing.T) {
	root := t.TempDir()
	for from, to := range map[string]string{"a": "b", "b": "a"} {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	added := map[string]bool{}
	follow(filepath.Join(root, "a", "file"), func(directory string) { added[directory] = true })
	if !added[root] {
		t.Errorf("got %v, want %s among them", added, root)
	}
}
