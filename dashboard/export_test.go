package dashboard

// The types of the API's answers, for tests of the page.
type (
	State         = state
	ConfigState   = configState
	RuleList      = ruleList
	OutboundState = outboundState
	Action        = action
)
