package simulate

import (
	"fmt"

	"github.com/stint-limiter/stint/internal/figures"
)

// tokenCounts counts the requests that have token counts in the log, or need them for a policy.
type tokenCounts struct {
	needed   int64 // requests whose tokens a policy counts
	logged   int64 // requests with token counts in the log
	missing  int64 // needed requests without token counts in the log, except those with error responses
	unpriced int64 // requests with a model that has no price

	firstMissing, firstUnpriced string // the first request of each kind, as the notes describe it
}

func (c *tokenCounts) add(i *input) {
	if i.record.Tokens.Counted {
		c.logged++
	}
	if !i.known.Counted {
		return
	}
	c.needed++
	if !i.known.Found && !i.known.Failed {
		if c.missing++; c.missing == 1 {
			c.firstMissing = fmt.Sprintf("%s:%d", i.record.File, i.record.Line)
		}
	}
	if i.known.Unpriced {
		if c.unpriced++; c.unpriced == 1 {
			c.firstUnpriced = fmt.Sprintf("%.80q, %s:%d", i.known.Used.Model, i.record.File, i.record.Line)
		}
	}
}

func (c *tokenCounts) notes(note func(format string, args ...any)) {
	if c.missing > 0 {
		note("%s of %s whose tokens are counted have no count in the log (the first: %s). They are charged the "+
			"estimate of a request without a body, its default_output. --map names the keys of counts in lines of JSON: "+
			"input_tokens=usage.prompt_tokens,output_tokens=usage.completion_tokens",
			figures.Number(c.missing), plural(c.needed, "request"), c.firstMissing)
	}
	if c.unpriced > 0 {
		note("%s used a model that has no price (the first: %s). Budgets of prices deny such requests, and no larger "+
			"budget admits them. Add a price for the model, or a default.", plural(c.unpriced, "request"), c.firstUnpriced)
	}
	if c.needed == 0 && c.logged > 0 {
		note("The log has token counts for %s, but no policy counts tokens: add usage and a budget to one.",
			plural(c.logged, "request"))
	}
}
