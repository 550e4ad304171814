package e2e

import (
	"testing"

	"github.com/stint-limiter/stint/internal/browsertest"
	"github.com/stint-limiter/stint/internal/redistest"
)

// TestProcesses: the page of one of two servers on a Redis shows what both have decided.
func TestProcesses(t *testing.T) {
	shared := sharing(redistest.Start(t).URL())
	patient := "failure: {budget: 10s}\n" + five
	one, two := start(t, patient, shared), start(t, patient, shared)
	page := browsertest.Start(t).Page(t, 1280, 900)
	one.open(page, "overview")
	page.WaitText(".strip", "2 report")
	one.use("42", 3)
	two.use("43", 7)
	page.WaitText(".processes tbody", "3, 0 denied")
	page.WaitText(".processes tbody", "7, 2 denied")
	page.WaitText(".overview .top", "2")
	page.Click("nav [data-view=violations]")
	page.WaitText(".violations .counts", "the other process lists its own")
}
