package storetest

import (
	"fmt"

	"github.com/stint-limiter/stint"
)

// inspect compares the inspections of the store and the reference, if the store is an inspector.
func (w *world) inspect(s step) error {
	if w.inspector == nil {
		return nil
	}
	c := w.claim(s.claims[0])
	if err := w.calm(stint.Request{Claims: []stint.Claim{c}}); err != nil {
		return err
	}
	want, err := w.oracle.Inspect(w.t.Context(), c)
	if err != nil {
		return err
	}
	w.note("%d: inspect %q %q %v → ban %s", w.at(), short(c.Subject, w.prefix), c.Scope, c.Limits, banText(want.Ban))
	got, err := w.inspector.Inspect(w.t.Context(), c)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	if !got.Now.Equal(want.Now) || banText(got.Ban) != banText(want.Ban) || len(got.Windows) != len(want.Windows) {
		return fmt.Errorf("store and reference differ: inspected at %v, ban %s, %d windows; want %v, %s, %d",
			got.Now, banText(got.Ban), len(got.Windows), want.Now, banText(want.Ban), len(want.Windows))
	}
	for i, g := range got.Windows {
		v := want.Windows[i]
		if stateText(g.State) != stateText(v.State) || entriesText(g) != entriesText(v) || g.Held != v.Held {
			return fmt.Errorf("store and reference differ: %s is %s with %s, %d held; want %s with %s, %d held",
				v.Limit, stateText(g.State), entriesText(g), g.Held, stateText(v.State), entriesText(v), v.Held)
		}
	}
	return nil
}
