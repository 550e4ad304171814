package api_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/server/api"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

// spec is the OpenAPI document and its schemas.
type spec struct {
	doc map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

var loadSpec = sync.OnceValues(func() (*spec, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.Document()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("openapi.json", doc); err != nil {
		return nil, err
	}
	return &spec{doc: doc.(map[string]any), compiler: c, schemas: map[string]*jsonschema.Schema{}}, nil
})

func specification(t testing.TB) *spec {
	t.Helper()
	return testkit.Must(loadSpec())(t)
}

func (s *spec) paths() map[string]any { return s.doc["paths"].(map[string]any) }

// method is the only one that a path has.
func (s *spec) method(path string) string {
	item, _ := s.paths()[path].(map[string]any)
	for method := range item {
		return method
	}
	return ""
}

func (s *spec) operation(path string) map[string]any {
	item, _ := s.paths()[path].(map[string]any)
	operation, _ := item[s.method(path)].(map[string]any)
	return operation
}

// at returns what is at a place in the document, where references are followed.
func (s *spec) at(place string) any {
	var value any = s.doc
	for _, name := range strings.Split(place, "/")[1:] {
		object, _ := value.(map[string]any)
		value = object[strings.ReplaceAll(name, "~1", "/")]
		if object, ok := value.(map[string]any); ok {
			if ref, ok := object["$ref"].(string); ok {
				value = s.at(strings.TrimPrefix(ref, "#"))
			}
		}
	}
	return value
}

// bodyOf is the place of the body that a path takes.
func bodyOf(path string) string {
	return "/paths/" + escape(path) + "/post/requestBody/content/application~1json"
}

// example is the document's example of an answer.
func (s *spec) example(path string, status int) map[string]any {
	example, _ := s.at(fmt.Sprintf("/paths/%s/%s/responses/%d/content/application~1json/example",
		escape(path), s.method(path), status)).(map[string]any)
	return example
}

// check holds a text against the schema at a place in the document.
func (s *spec) check(at string, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	schema := s.schemas[at]
	if schema == nil {
		var err error
		if schema, err = s.compiler.Compile("openapi.json#" + at); err != nil {
			return err
		}
		s.schemas[at] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (s *spec) validate(t testing.TB, at string, text []byte) {
	t.Helper()
	if err := s.check(at, text); err != nil {
		t.Errorf("%s\ndoes not fit the document at %s: %v", text, at, err)
	}
}

// The document takes what the server takes, and nothing else: whatever members go into a request,
// both agree on whether it is one.
func TestDocumentAgrees(t *testing.T) {
	values := []struct{ name, value string }{
		{"method", `"GET"`}, {"path", `"/"`}, {"peer", `"203.0.113.9"`}, {"host", `"example.com"`},
		{"headers", `{"X-A":"b"}`},
		{"claims", `{"user":"42"}`}, {"subject", `"user:42"`}, {"scope", `"s"`}, {"policy", `"login"`},
		{"tier", `"free"`},
		{"limits", `["cost: 999999/1m"]`}, {"and", `[{"subject":"user:43","policy":"login"}]`},
		{"cost", `1`}, {"costs", `{"cost":1}`}, {"id", `"i"`}, {"hold_seconds", `300`},
		{"max_wait_seconds", `1.5`}, {"mode", `"reserve"`},
	}
	// Everything has a budget, so that costs can be named, and nothing needs an address, which only
	// descriptions say of some configurations.
	s := serve(t, guardtest.Memory(t), `
tiers: [{name: free, identity: everyone, limits: 999999/1m, budget: 999999/1h}]
policies: [{name: login, match: {path: /login}, limits: 999999/1m, budget: 999999/1h}]
`)
	check := func(path, body string) error {
		return specification(t).check(bodyOf(path)+"/schema", []byte(body))
	}
	agree := func(path, body string) {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, request(path, body))
		err := check(path, body)
		if (w.Code == http.StatusBadRequest) != (err != nil) {
			t.Errorf("%s %s: the server says %d %s\nthe document says %v", path, body, w.Code, w.Body, err)
		}
	}
	ask := func(members []string) {
		body := "{" + strings.Join(members, ",") + "}"
		agree("/v1/take", body)
		wait, mode := strings.Contains(body, "max_wait_seconds"), strings.Contains(body, "mode")
		if wait || len(members) < 4 { // the others are as for take
			agree("/v1/reserve", body)
		}
		hold := strings.Contains(body, "hold_seconds")
		// That a wait needs a mode, and that a hold conflicts with it, is only in descriptions.
		if mode && !hold || !wait && len(members) < 4 && !mode {
			agree("/v1/batch", `{"requests":[`+body+`]}`)
		}
	}
	// Forms have three required members at most, so four show what goes with what.
	var choose func(from int, members []string)
	choose = func(from int, members []string) {
		ask(members)
		if len(members) == 4 {
			return
		}
		for i := from; i < len(values); i++ {
			choose(i+1, append(slices.Clip(members), `"`+values[i].name+`":`+values[i].value))
		}
	}
	choose(0, nil)

	// A value of another type is a mistake, and null is none at all. That members of other forms may be
	// null, too, is only in the description.
	for _, v := range values {
		for _, form := range []string{`"method":"GET","path":"/"`, `"subject":"a","policy":"login"`,
			`"subject":"a","tier":"free"`, `"subject":"a","limits":["9/1m"]`} {
			ask([]string{form, `"` + v.name + `":true`})
			if strings.Contains(form, v.name) || v.name == "policy" { // a policy makes it another form
				continue
			}
			for _, path := range []string{"/v1/take", "/v1/reserve", "/v1/wait"} {
				if check(path, "{"+form+`,"`+v.name+`":`+v.value+"}") == nil {
					agree(path, "{"+form+`,"`+v.name+`":null}`)
				}
			}
		}
	}
	agree("/v1/batch", `{"requests":[{"subject":"a","tier":"free","mode":null,"max_wait_seconds":null}]}`)
	for _, and := range []string{`"policy":"login","tier":null,"limits":null,"scope":null,"claims":null`,
		`"tier":"free","policy":null`} {
		agree("/v1/take", `{"subject":"a","tier":"free","and":[{"subject":"b",`+and+`}]}`)
	}
}

// Every status in the document is answered to something.
func TestEveryStatus(t *testing.T) {
	s := serve(t, guardtest.Memory(t), rules+"outbound: {igdb: {limits: 4/1s}}\n")
	down := serve(t, guardtest.Stack(t, failing, resilience.Config{}), "failure: {mode: deny}\n"+rules)
	broken := serve(t, failing, rules)
	private := serve(t, guardtest.Memory(t), rules, func(c *api.Config) { c.Public = false })
	keyedServer := serve(t, amendFails{guardtest.Memory(t)}, rules)
	charge := func(s *server) string {
		return s.post("/v1/take", `{"subject":"u","limits":["999/1m"]}`).decision(200).Charge
	}

	seen := map[string]bool{}
	errors := map[string]bool{"not_found": true, "internal": true} // of other paths, and of none
	errors["busy"], errors["stopping"] = true, true                // see TestTooManyWait and TestStop
	note := func(path string, a answer) {
		seen[fmt.Sprint(path, " ", a.Code)] = true
		var p struct{ Error string }
		a.loosely(&p)
		if p.Error != "" {
			errors[p.Error] = true
		}
		if example, ok := specification(t).example(path, a.Code)["error"]; ok && example != p.Error {
			t.Errorf("%s %d: the document's example is of the error %v, and the server's is %q", path, a.Code, example, p.Error)
		}
	}
	good := map[string]string{
		"/v1/take": `{"subject":"u","tier":"free"}`, "/v1/peek": `{"subject":"u","tier":"free"}`,
		"/v1/reserve": `{"subject":"u","tier":"free"}`, "/v1/report": `{"subject":"u","tier":"free"}`,
		"/v1/batch":  `{"requests":[{"subject":"u","tier":"free"}]}`,
		"/v1/settle": withCharge(charge(s), `,"cost":2`), "/v1/refund": withCharge(charge(s), ""),
		"/v1/wait": `{"subject":"u","tier":"free"}`, "/v1/cooldown": `{"api":"igdb","for_seconds":1}`,
		"/v1/extend": withCharge(charge(s), ""), "/v1/release": withCharge(charge(s), ""),
	}
	want := map[string]bool{}
	for path := range specification(t).paths() {
		for status := range specification(t).operation(path)["responses"].(map[string]any) {
			want[path+" "+status] = true
		}
		note(path, s.send(httptest.NewRequest(http.MethodPut, path, nil), ""))
		if path == "/openapi.json" {
			note(path, s.send(get(path, "203.0.113.9:1"), ""))
			continue
		}
		if path == "/v1/usage" {
			note(path, s.usage("203.0.113.9", "42"))
			for range 61 {
				note(path, s.usage("10.0.0.1", "42"))
			}
			note(path, broken.usage("10.0.0.1", "42"))
			continue
		}
		note(path, s.post(path, good[path]))
		note(path, s.post(path, `{`))
		note(path, private.post(path, good[path]))
		note(path, s.post(path, good[path], "Content-Type: text/plain"))
		note(path, s.post(path, good[path], "Sec-Fetch-Site: cross-site"))
		note(path, s.post(path, `{"`+strings.Repeat("x", 2<<20)+`":1}`))
		note(path, s.post(path, `{"subject":"u","limits":["0/1m"]}`))
		note(path, down.post(path, good[path]))
		note(path, broken.post(path, good[path]))
		note(path, keyedServer.post(path, withCharge(charge(keyedServer), "")))
		note(path, keyedServer.post(path, withCharge(charge(keyedServer), `,"cost":1`)))
	}
	if !maps.Equal(seen, want) {
		t.Errorf("statuses answered:\n%v\nand in the document:\n%v", slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(want)))
	}
	properties := specification(t).at("/components/schemas/Problem/properties/error").(map[string]any)
	for _, word := range properties["enum"].([]any) {
		if !errors[word.(string)] {
			t.Errorf("no error is %q", word)
		}
	}
}
