package e2e

import (
	"github.com/stint-limiter/stint/internal/browsertest"
)

// act presses a button of the subject's page, and says yes.
func act(page *browsertest.Page, name string) {
	page.Click("[data-act=" + name + "]")
	page.Wait("document.querySelector('#confirm').open")
	page.Click("#confirm [value=ok]")
}
