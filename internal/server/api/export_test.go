package api

// What answers are, for tests from outside.
type (
	LimitState = limitState
	Decision   = decision
	Mistake    = mistake
	Problem    = problem
	Results    = results
)
