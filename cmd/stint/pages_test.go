package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestNoSecretsOnCommandLines: no example and no page shows a password on a command line, where
// every user of a machine can read it.
func TestNoSecretsOnCommandLines(t *testing.T) {
	shown := regexp.MustCompile(`--(store|alert-webhook)[ =]'?[a-z]+://[^ /@]*:[^ /@]+@`)
	err := filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "node_modules", "testdata"}, entry.Name()):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		case !slices.Contains([]string{".md", ".yaml", ".go", ".service", ".conf", ".cfg", ".lua", ""},
			filepath.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if found := shown.Find(text); found != nil {
			t.Errorf("%s shows %s", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSecurityPage: every test and every row of docs/faults.md that SECURITY.md names exists.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	faults, err := os.ReadFile(filepath.Join(root, "docs", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bF[0-9]+[a-z]?\b|\b(Test|Fuzz)[A-Z]\w+`).FindAllString(string(page), -1)
	if len(named) < 10 {
		t.Fatalf("found the names %q", named)
	}
	for _, name := range named {
		want := "func " + name
		if name[1] >= '0' && name[1] <= '9' {
			want = "func Test" + name
		}
		if !regexp.MustCompile(want+`\D`).MatchString(tests.String()) && !regexp.MustCompile(`\b`+name+`\b`).Match(faults) {
			t.Errorf("there is no test %s", name)
		}
	}
}
