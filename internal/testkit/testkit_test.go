package testkit

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that records why it failed.
type failing struct {
	testing.TB
	why string
}

func (*failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *failing) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func TestMust(t *testing.T) {
	if got := Must(7, nil)(t); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	f := &failing{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Must(7, errors.New("no cloud"))(f)
	}()
	if <-ended; f.why != "no cloud" {
		t.Errorf("the test fails with %q, want the error", f.why)
	}
}

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if got := Eventually(t, "it is late", func() bool { return time.Since(start) >= 10*time.Second }); got != 10*time.Second {
			t.Errorf("took %v, want 10s", got)
		}
		f := &failing{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			EventuallyNil(f, "it rains", func() error { return errors.New("no cloud") })
		}()
		<-ended
		if want := "it rains: no cloud after 1m0s"; f.why != want {
			t.Errorf("the test fails with %q, want %q", f.why, want)
		}
	})
}
