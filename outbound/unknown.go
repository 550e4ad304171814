package outbound

import (
	"fmt"
	"github.com/stint-limiter/stint/internal/nearest"
	"strings"
)

// UnknownError is a call to an API that is not registered, or no longer.
type UnknownError struct {
	// Name is what was asked for, and Known what there is, in order.
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("outbound: there is no API %q; none is registered", e.Name)
	}
	return fmt.Sprintf("outbound: there is no API %q%s; known: %s", e.Name, nearest.Hint(e.Name, e.Known), strings.Join(e.Known, ", "))
}
