package api

// What answers are, for tests from outside.
type (
	Decision = decision
	Mistake  = mistake
	Problem  = problem
	Results  = results
)

// Document returns the OpenAPI document.
func Document() []byte { return openAPI }

// Crowd has as many calls wait as may.
func (a *API) Crowd() { a.waits.waiting.Store(maxWaiting) }
