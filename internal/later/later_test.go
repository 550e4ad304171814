package later_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint/internal/later"
)

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for takes, want := range map[time.Duration]bool{0: true, later.Most / 2: true, time.Second: false} {
			start, ended := time.Now(), false
			done := later.Do(func() {
				time.Sleep(takes)
				ended = true
			})
			if waited := time.Since(start); done != want || waited != min(takes, later.Most) {
				t.Errorf("%v of work: done %v after %v", takes, done, waited)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if !ended {
				t.Errorf("%v of work did not go on", takes)
			}
		}
	})
}
