package browsertest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// axeFile is the path, relative to the root of the repository, where `make setup` installs
// axe-core.
const axeFile = "tools/axe/node_modules/axe-core/axe.min.js"

// axeRun is a JavaScript function that returns the problems that axe-core finds, one string per
// element. Its argument lists the rules to apply. If the list is empty, it applies every rule of
// WCAG 2.2, levels A and AA, and every best practice.
const axeRun = `((only) => axe.run(document, {
	preload: false, // no rule used here reads style sheets
	resultTypes: ["violations"],
	runOnly: only.length > 0 ? {type: "rule", values: only}
		: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
	rules: only.length > 0 ? {} : {"target-size": {enabled: true}},
}).then(({violations}) => violations.flatMap((v) => v.nodes.map((n) =>
	v.id + ": " + n.target.join(" ") + ": " + n.failureSummary.replace(/\s+/g, " ")))))`

// Audit runs axe-core on the page in its current state, and returns the violations of the named
// rules, or of all rules if none is named. It injects the script through the DevTools protocol, so
// the page's content security policy does not block it.
func (p *Page) Audit(rules ...string) []string {
	p.t.Helper()
	source, err := axe()
	p.must(err, "read axe-core (make setup installs it, with npm, from tools/axe)")
	if Eval[string](p, "typeof axe") == "undefined" {
		Eval[bool](p, source+"\n;true")
	}
	return Eval[[]string](p, axeRun+"("+Quote(strings.Join(rules, " "))+".split(' ').filter(Boolean))")
}

// axe reads axe-core's script. It finds the root of the repository from the path of this file.
var axe = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	source, err := os.ReadFile(filepath.Join(filepath.Dir(file), "../..", axeFile))
	return string(source), err
})
