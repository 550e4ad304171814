package contest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplace(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"between markers", "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n", "a\n<!-- x:begin -->\nnew\n<!-- x:end -->\nb\n"},
		{"of its name", "<!-- y:begin -->1<!-- y:end --><!-- x:begin -->2<!-- x:end -->", "<!-- y:begin -->1<!-- y:end --><!-- x:begin -->\nnew\n<!-- x:end -->"},
		{"no markers", "a", ""},
		{"no end", "<!-- x:begin -->", ""},
		{"in the wrong order", "<!-- x:end --><!-- x:begin -->", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "doc.md")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Replace(path, "x", "new\n")
			if want := test.want == ""; (err != nil) != want {
				t.Fatalf("got error %v, want one: %v", err, want)
			}
			if err != nil {
				if !strings.Contains(err.Error(), "<!-- x:begin -->") {
					t.Errorf("got %v, want the markers named", err)
				}
				return
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.946: "0.946", 1.234: "1.23", 12.34: "12.3", 120: "120",
		456.7: "457", 124_000_000: "124,000,000"} {
		if got := Number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
