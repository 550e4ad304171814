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
	equal("paths", slices.Collect(maps.Keys(doc.Paths)),
		append(slices.Collect(maps.Keys(posts)), documentPath, usagePath))

	properties := func(name string) []string {
		return slices.Collect(maps.Keys(doc.Components.Schemas[name].Properties))
	}
	// What a form of a request takes: of the members by subject, only its own.
	forms := map[string]struct {
		form   form
		except []string
	}{
		"ByAttributes": {byAttributes, nil},
		"ByPolicy":     {bySubject, []string{"limits"}},
		"ByTier":       {bySubject, []string{"limits", "policy"}},
		"ByLimits":     {bySubject, []string{"policy", "tier", "claims"}},
	}
	for prefix, known := range map[string][]string{
		"": askNames(stint.ModeTake, false), "Reserve": askNames(stint.ModeReserve, false),
		"Batch": askNames(stint.ModeTake, true), "Wait": waitNames(),
	} {
		for name, of := range forms {
			var want []string
			for _, m := range askMembers {
				if slices.Contains(known, m.name) && (m.form == anyForm || m.form == of.form) &&
					!slices.Contains(of.except, m.name) {
					want = append(want, m.name)
				}
			}
			equal(prefix+name, properties(prefix+name), want)
		}
	}
	equal("wait for an API", properties("WaitForAPI"), []string{"api", "max_wait_seconds"})
	equal("cooldown", properties("CooldownRequest"), slices.Clone(coolDownNames))
	equal("settle", properties("SettleRequest"), slices.Clone(settleNames))
	equal("extend", properties("ExtendRequest"), slices.Clone(extendNames))
	equal("release", properties("ChargeRequest"), slices.Clone(releaseNames))

	for name, value := range map[string]any{
		"Decision": decision{}, "Limit": limitState{}, "Problem": problem{}, "Mistake": mistake{}, "Changed": changed{},
		"BatchResults": results{}, "BatchResult": result{}, "Usage": usage{}, "Pause": pause{},
		"UsedLimit": usageState{},
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
