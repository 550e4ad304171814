package contract

import (
	"sync"
	"testing"

	"github.com/stint-limiter/stint"
)

// TestUsagesAreNotShared: whoever gets usages may write and append to them; run it with -race.
func TestUsagesAreNotShared(t *testing.T) {
	const goroutines, rounds = 8, 2000
	kept := make([][][]stint.Usage, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range rounds {
				usages := Usages(i % 12)
				for k := range usages {
					if usages[k] != (stint.Usage{}) {
						t.Errorf("got %+v, want zero", usages[k])
					}
					usages[k].Used = int64(g*rounds + i)
				}
				_ = append(usages, stint.Usage{Used: -1})
				kept[g] = append(kept[g], usages)
			}
		})
	}
	group.Wait()
	for g := range kept {
		for i, usages := range kept[g] {
			for k := range usages {
				if usages[k].Used != int64(g*rounds+i) {
					t.Fatalf("usages %d of goroutine %d were overwritten: %+v", i, g, usages[k])
				}
			}
		}
	}
}
