package dashboard

import "net/http"

// Page serves the page with another API.
func Page(api http.Handler) (http.Handler, error) {
	pages, err := readPages()
	return pages.handler(api), err
}

// The types of the API's answers, for tests of the page.
type (
	State         = state
	ConfigState   = configState
	RuleList      = ruleList
	OutboundState = outboundState
	Action        = action
)
