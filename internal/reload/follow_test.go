package reload

import (
	"os"
	"path/filepath"
	"testing"
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
		directory := filepath.Join(root, "releases", version, "rules")
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(directory, "book"), version)
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
	put(t, filepath.Join(root, "releases", "3", "rules", "book"), "4")
	b.says("4")
}

// TestLinksInCircles end somewhere.
func TestLinksInCircles(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("b", filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	added := map[string]bool{}
	follow(filepath.Join(root, "a", "file"), func(directory string) { added[directory] = true })
	if !added[root] {
		t.Errorf("got %v, want %s among them", added, root)
	}
}
