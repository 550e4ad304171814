package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
)

// Document returns the OpenAPI document, for the tests outside.
func Document() []byte { return openAPI }

// What the code knows and what the document says are the same: paths, members of bodies, members of
// answers.
func TestDocumentIsTheCode(t *testing.T) {
	var doc struct {
		Paths      map[string]map[string]any
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	equal := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\nthe document has %v\nthe code has     %v", what, got, want)
		}
	}
	equal("paths", slices.Collect(maps.Keys(doc.Paths)), append(slices.Collect(maps.Keys(posts)), documentPath))

	properties := func(names ...string) []string {
		all := map[string]bool{}
		for _, name := range names {
			for p := range doc.Components.Schemas[name].Properties {
				all[p] = true
			}
		}
		return slices.Collect(maps.Keys(all))
	}
	forms := []string{"Common", "ByAttributes", "ByName", "ByLimits"}
	equal("take", properties(append(forms, "Request")...), askNames(stint.ModeTake, false))
	equal("reserve", properties(append(forms, "ReserveRequest")...), askNames(stint.ModeReserve, false))
	equal("batch", properties(append(forms, "BatchedRequest")...), askNames(stint.ModeTake, true))
	equal("settle", properties("SettleRequest"), slices.Clone(settlement.known))
	equal("refund", properties("ChargeRequest"), slices.Clone(refund.known))

	for name, value := range map[string]any{
		"Decision": decision{}, "Limit": limitState{}, "Problem": problem{}, "Mistake": mistake{}, "Changed": changed{},
		"BatchResponse": results{}, "Result": result{},
	} {
		var all, required []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			if f.Anonymous {
				continue // its fields are the value's
			}
			tag, optional := strings.CutSuffix(f.Tag.Get("json"), ",omitempty")
			all = append(all, tag)
			if !optional {
				required = append(required, tag)
			}
		}
		equal(name, properties(name), all)
		equal(name+", required", doc.Components.Schemas[name].Required, required)
	}
}
