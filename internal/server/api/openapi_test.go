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

	"github.com/stint-limiter/stint/internal/server/api"
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
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// method is the only one that a path has.
func (s *spec) method(path string) string {
	item, _ := s.doc["paths"].(map[string]any)[path].(map[string]any)
	for method := range item {
		return method
	}
	return ""
}

func (s *spec) operation(path string) map[string]any {
	item, _ := s.doc["paths"].(map[string]any)[path].(map[string]any)
	operation, _ := item[s.method(path)].(map[string]any)
	return operation
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

// The document's own examples are good, and are answered.
func TestExamples(t *testing.T) {
	s := serve(t, memory(t), rules)
	schemas := specification(t).doc["components"].(map[string]any)["schemas"].(map[string]any)
	examples := 0
	for name, schema := range schemas {
		list, _ := schema.(map[string]any)["examples"].([]any)
		for _, example := range list {
			examples++
			if a := s.post("/v1/take", string(marshal(t, example))); a.Code != http.StatusOK {
				t.Errorf("%s: %v: %d %s", name, example, a.Code, a.Body)
			}
		}
	}
	if examples < 4 {
		t.Errorf("%d examples", examples)
	}
}

// Every status in the document is answered to something.
func TestEveryStatus(t *testing.T) {
	s := serve(t, memory(t), rules)
	failed, err := resilience.New(failing{}, resilience.Config{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer failed.Close()
	down := serve(t, failed, "failure: {mode: deny}\n"+rules)
	broken := serve(t, failing{}, rules)
	private := serve(t, memory(t), rules, func(c *api.Config) { c.Public = false })
	key := func(c *api.Config) { c.Key = []byte("0123456789abcdef") }
	keyed, keyedBroken := serve(t, memory(t), rules, key), serve(t, failing{}, rules, key)
	charge := func(s *server) string {
		return s.post("/v1/take", `{"subject":"u","limits":["999/1m"]}`).decision(200).Charge
	}

	seen := map[string]bool{}
	note := func(path string, a answer) { seen[fmt.Sprint(path, " ", a.Code)] = true }
	good := map[string]string{
		"/v1/take": `{"subject":"u","tier":"free"}`, "/v1/peek": `{"subject":"u","tier":"free"}`,
		"/v1/reserve": `{"subject":"u","tier":"free"}`,
		"/v1/batch":   `{"requests":[{"subject":"u","tier":"free"}]}`,
		"/v1/settle":  `{"charge":"` + charge(s) + `","cost":2}`, "/v1/refund": `{"charge":"` + charge(s) + `"}`,
		"/v1/extend": `{"charge":"` + charge(s) + `"}`, "/v1/release": `{"charge":"` + charge(s) + `"}`,
	}
	want := map[string]bool{}
	for path := range specification(t).doc["paths"].(map[string]any) {
		for status := range specification(t).operation(path)["responses"].(map[string]any) {
			want[path+" "+status] = true
		}
		note(path, s.send(httptest.NewRequest(http.MethodPut, path, nil), ""))
		if path == "/openapi.json" {
			note(path, s.send(httptest.NewRequest(http.MethodGet, path, nil), ""))
			continue
		}
		note(path, s.post(path, good[path]))
		note(path, s.post(path, `{`))
		note(path, private.post(path, good[path]))
		note(path, s.post(path, good[path], "Content-Type: text/plain"))
		note(path, s.post(path, `{"`+strings.Repeat("x", 2<<20)+`":1}`))
		note(path, s.post(path, `{"subject":"u","limits":["0/1m"]}`))
		note(path, down.post(path, good[path]))
		note(path, broken.post(path, good[path]))
		note(path, keyedBroken.post(path, `{"charge":"`+charge(keyed)+`"}`))
		note(path, keyedBroken.post(path, `{"charge":"`+charge(keyed)+`","cost":1}`))
	}
	if !maps.Equal(seen, want) {
		t.Errorf("statuses answered:\n%v\nand in the document:\n%v", slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(want)))
	}
}
