package eventually

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		late := func() bool { return time.Since(start) >= 10*time.Second }
		if got, want := True(t, "it is late", late), 10*time.Second; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
		if got := True(t, "it is late", late); got != 0 {
			t.Errorf("took %v for what is so already", got)
		}
	})
}

// failing is a test that remembers why it failed.
type failing struct {
	testing.TB
	why string
}

func (*failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestItDoesNotCome(t *testing.T) {
	for _, test := range []struct {
		name string
		wait func(t testing.TB)
		want string
	}{
		{"a condition", func(t testing.TB) { True(t, "it rains", func() bool { return false }) },
			"it rains: not so after 1m0s"},
		{"an error", func(t testing.TB) { Nil(t, "it rains", func() error { return errors.New("no cloud") }) },
			"it rains: no cloud after 1m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{TB: t}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					test.wait(f)
				}()
				<-ended
				if f.why != test.want {
					t.Errorf("the test fails with %q, want %q", f.why, test.want)
				}
			})
		})
	}
}
