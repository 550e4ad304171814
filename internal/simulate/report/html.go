package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // embeds the files of the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/chart"
)

//go:embed page.html
var pageTemplate string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

type page struct {
	Title, Lead string
	Sections    []section
	// Policy is a content security policy that allows only the script and the style of the page.
	Policy string
	Style  template.CSS
	Script template.JS
	Result template.JS
}

// HTML returns the report as a page in one file, which can be opened from disk or served. The page
// loads nothing. Its content security policy allows only its own script and style. The element with
// the id "result" contains the whole result as JSON.
func (r *Report) HTML() ([]byte, error) {
	t, err := template.New("page.html").Funcs(template.FuncMap{"kind": kind, "list": list}).Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	// JSON escapes <, > and &, so no text from a log can end the script element.
	result, err := json.Marshal(r.result)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	style, script := chart.Style+pageStyle, chart.Script+pageScript
	var b bytes.Buffer
	err = t.Execute(&b, page{
		Title: r.title, Lead: r.lead, Sections: r.sections,
		Policy: fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'",
			hash(script), hash(style)),
		Style: template.CSS(style), Script: template.JS(script), Result: template.JS(result),
	})
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// hash returns the hash of an element's text for a content security policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func kind(b block) string {
	switch b.(type) {
	case paragraph:
		return "paragraph"
	case table:
		return "table"
	}
	return "timeline"
}

func list(numbers []int64) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(texts, ",")
}
