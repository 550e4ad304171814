package dashboard

// What the page is told, for tests of the page: it is what the API tells.
type (
	State         = state
	ConfigState   = configState
	RuleList      = ruleList
	OutboundState = outboundState
	Deed          = deed
)
