package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
)

// book is something that is read from files: their text, which must not be "bad".
type book struct {
	*Watcher
	t    *testing.T
	text atomic.Pointer[string]
}

// open watches files, until the test ends if run is set.
func open(t *testing.T, c Config, run bool) *book {
	t.Helper()
	b := &book{t: t}
	c.Name = "test: the book"
	if c.Open == nil {
		c.Open = func() ([]File, error) { return ReadFiles(1000, c.Paths...) }
	}
	c.Read = func(files []File) (func() InForce, error) {
		text := ""
		for _, f := range files {
			text += string(f.Text)
		}
		if text == "bad" {
			return nil, errors.New("the book is bad")
		}
		return func() InForce { b.text.Store(&text); return InForce{} }, nil
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	b.Watcher = New(c)
	if err := b.Reload().Err; err != nil {
		t.Fatal(err)
	}
	if run {
		b.run()
	}
	return b
}

func (b *book) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.t.Errorf("Run returned %v", err)
		}
	})
}

// says waits until the book in force has that text.
func (b *book) says(text string) {
	b.t.Helper()
	testkit.EventuallyNil(b.t, "the book says "+text, func() error {
		if got := *b.text.Load(); got != text || b.Last().Err != nil {
			return fmt.Errorf("got %q, %+v", got, b.Last())
		}
		return nil
	})
}

// TestReload tells once of everything that happens, and nothing of what does not.
func TestReload(t *testing.T) {
	name := testkit.TempFile(t, "book", "one")
	var log bytes.Buffer
	told := 0
	b := open(t, Config{
		Paths:    []string{name},
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		Reloaded: func(Result) { told++ },
	}, false)
	steps := []struct {
		text, want         string
		changed, wrong     bool
		good, failed, told int
		log                string
	}{
		{"one", "one", false, false, 0, 0, 0, ""},
		{"two", "two", true, false, 1, 0, 1, "the book has changed and is in force"},
		{"two", "two", false, false, 1, 0, 1, ""},
		{"bad", "two", false, true, 1, 1, 2, "the book was refused; the last good version stays in force"},
		{"bad", "two", false, true, 1, 1, 2, ""},
		{"two", "two", false, false, 1, 1, 3, "the book was restored to the version in force"},
		{"bad", "two", false, true, 1, 2, 4, "the book was refused; the last good version stays in force"},
		{"three", "three", true, false, 2, 2, 5, "the book has changed and is in force"},
	}
	for i, s := range steps {
		log.Reset()
		testkit.WriteFile(t, name, s.text)
		r := b.Reload()
		if !reflect.DeepEqual(r, b.Last()) {
			t.Errorf("step %d: Last is not what Reload returned", i)
		}
		if got := *b.text.Load(); got != s.want || r.Changed != s.changed || (r.Err != nil) != s.wrong ||
			r.Good != s.good || r.Failed != s.failed || told != s.told {
			t.Errorf("step %d: got %q, %+v, told %d times; want %+v", i, got, r, told, s)
		}
		lines := 0
		if s.log != "" {
			lines = 1
		}
		if line := log.String(); strings.Count(line, "\n") != lines || !strings.Contains(line, s.log) {
			t.Errorf("step %d: logged %q, want %q", i, line, s.log)
		}
	}
}

// TestLostForAMoment: a file that is away while its editor writes it anew is not gone.
func TestLostForAMoment(t *testing.T) {
	looks := 0
	one := File{"a", []byte("1")}
	files := [][]File{{one, {"b", []byte("2")}}, {one}, {one, {"b", []byte("3")}}}
	var got []string
	w := New(Config{
		Paths: []string{t.TempDir()},
		Open:  func() ([]File, error) { looks++; return files[looks-1], nil },
		Read: func(files []File) (func() InForce, error) {
			return func() InForce {
				for _, f := range files {
					got = append(got, f.Name)
				}
				return InForce{}
			}, nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	w.Reload()
	if r := w.Reload(); !r.Changed || strings.Join(got, "") != "abab" {
		t.Errorf("got %v, %+v; want both files each time", got, r)
	}
}

// TestElsewhere follows links from a directory to files elsewhere, and files below it.
func TestElsewhere(t *testing.T) {
	linked, deep, elsewhere := t.TempDir(), t.TempDir(), testkit.TempFile(t, "real", "1")
	link, below := filepath.Join(linked, "link"), filepath.Join(deep, "a", "b", "c")
	testkit.WriteFile(t, below, "1")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		directory, name, file string
		deep                  bool
	}{{linked, link, elsewhere, false}, {deep, below, below, true}} {
		b := open(t, Config{Paths: []string{test.directory}, Deep: test.deep,
			Open: func() ([]File, error) { return ReadFiles(1000, test.name) }}, true)
		testkit.WriteFile(t, test.file, "2")
		b.says("2")
	}
}

// TestFirst: files that are not good the first time are in force as soon as they are.
func TestFirst(t *testing.T) {
	name := filepath.Join(t.TempDir(), "book")
	unreadable := errors.New("unreadable")
	var log bytes.Buffer
	used, told := 0, 0
	w := New(Config{
		Paths: []string{name},
		Open:  func() ([]File, error) { return ReadFiles(10, name) },
		Read: func(files []File) (func() InForce, error) {
			if string(files[0].Text) == "bad" {
				return nil, unreadable
			}
			return func() InForce { used++; return InForce{} }, nil
		},
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		Reloaded: func(Result) { told++ },
	})
	if err := w.Reload().Err; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: got %v", err)
	}
	testkit.WriteFile(t, name, "bad")
	if err := w.Run(t.Context()); !errors.Is(err, unreadable) {
		t.Errorf("of a bad file: got %v", err)
	}
	testkit.WriteFile(t, name, "x")
	r := w.Reload()
	if at := r.At; !reflect.DeepEqual(r, Result{At: at, Files: []string{name}}) || at.IsZero() ||
		used != 1 || told != 0 || log.Len() > 0 {
		t.Errorf("of a good file: got %+v, used %d times, told %d times, logged %q", r, used, told, &log)
	}
}

func TestReadFiles(t *testing.T) {
	a, b := testkit.TempFile(t, "a", "12345"), testkit.TempFile(t, "b", "67890")
	for size, want := range map[int]string{
		100: "a12345b67890", 10: "a12345b67890", 9: "a12345b67890", 7: "a12345b678", 4: "a12345", 2: "a123"} {
		files, err := ReadFiles(size, a, b)
		got := ""
		for _, f := range files {
			got += fmt.Sprint(filepath.Base(f.Name), string(f.Text))
		}
		if err != nil || got != want {
			t.Errorf("up to %d bytes: got %q, %v; want %q", size, got, err, want)
		}
	}
}

// TestSeveralFiles is one thing made of several files, any of which may change.
func TestSeveralFiles(t *testing.T) {
	first, second := testkit.TempFile(t, "a", "1"), testkit.TempFile(t, "b", "2")
	b := open(t, Config{Paths: []string{first, second}}, true)
	b.says("12")
	testkit.WriteFile(t, second, "3")
	b.says("13")
	testkit.WriteFile(t, first, "2")
	b.says("23")
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if r := b.Reload(); !errors.Is(r.Err, fs.ErrNotExist) {
		t.Errorf("got %+v, want that a file does not exist", r)
	}
	testkit.WriteFile(t, first, "4")
	b.says("43")
}

// TestPolling finds a change that nobody tells of.
func TestPolling(t *testing.T) {
	name := testkit.TempFile(t, "book", "one")
	b := open(t, Config{Paths: []string{name}}, false)
	poll := make(chan time.Time, 1)
	poll <- time.Now()
	await(context.Background(), nil, poll) // without a watch, it returns for the poll
	testkit.WriteFile(t, name, "two")
	if r := b.Reload(); !r.Changed {
		t.Errorf("got %+v, want a change", r)
	}
}
