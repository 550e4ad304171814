package redistest

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCheckGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	CheckGoroutines(t, before)
	begun, end := sync.WaitGroup{}, make(chan struct{})
	for range 50 { // more than other tests may have left running
		begun.Add(1)
		go leakForTest(&begun, end)
	}
	begun.Wait()
	err := checkGoroutines(before, 20*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "leakForTest") {
		t.Errorf("got %v, want the stack of those who were left", err)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		close(end)
	}()
	CheckGoroutines(t, before)
}

func leakForTest(begun *sync.WaitGroup, end chan struct{}) {
	begun.Done()
	<-end
}
