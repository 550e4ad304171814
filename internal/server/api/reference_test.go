package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/server/api"
	"github.com/stint-limiter/stint/internal/testkit"
)

var update = flag.Bool("update", false, "write docs/api.md")

const (
	docs  = "../../../docs/"
	tools = "../../../tools/openapi/"
)

// TestReference makes docs/api.md from the document.
func TestReference(t *testing.T) {
	p := &page{t: t, doc: parse(t, api.Document())}
	p.write()
	testkit.Golden(t, *update, "../"+docs+"api.md", p.String()) // from testdata
}

// page is docs/api.md.
type page struct {
	strings.Builder
	t   *testing.T
	doc *node
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) write() {
	p.line("# The JSON API\n")
	p.line("<!-- Generated from internal/server/api/openapi.json: go test ./internal/server/api -run TestReference -update -->\n")
	p.line("%s\n", p.text("info", "description"))
	p.line("A running server returns its OpenAPI document from `GET /openapi.json`; this page is generated from it. [server.md](server.md#json-api) describes how to run the server, and who may ask. For clients, see [below](#clients), or [a few lines of Python](quickstart.md#from-python).\n")
	p.line("The examples use this configuration:\n")
	p.line("```yaml\n# stint.yaml\n%s```\n", exampleRules)
	p.line("```sh\nstint serve --config stint.yaml --api-ad-hoc\n```\n")
	p.line("Without tokens, the server accepts only callers on the same host, over loopback. With `--api-token-file`, add `-H 'Authorization: Bearer TOKEN'` to the commands. The commands need curl 7.82 or later, which has `--json`; some also need jq.\n")
	p.operations()
	p.errors()
	p.schemas()
	p.headers()
	p.clients()
}

func (p *page) operations() {
	p.line("## Operations\n")
	p.line("| | |\n|---|---|")
	for _, path := range p.keys("paths") {
		method := p.keys("paths", path)[0]
		id := p.text("paths", path, method, "operationId")
		p.line("| [`%s %s`](#%s) | %s |", strings.ToUpper(method), path, id, p.text("paths", path, method, "summary"))
	}
	for _, path := range p.keys("paths") {
		p.operation(path, p.keys("paths", path)[0])
	}
}

func (p *page) operation(path, method string) {
	at := func(names ...string) []string { return append([]string{"paths", path, method}, names...) }
	id := p.text(at("operationId")...)
	p.line("\n### %s\n", id)
	p.line("`%s %s`: %s\n", strings.ToUpper(method), path, p.text(at("description")...))
	if method == "get" {
		header := ""
		if id == "usage" {
			header = "-H 'X-User-ID: 42' "
		}
		p.line("```sh\ncurl -s %s%s%s\n```\n", header, p.host(), path)
	} else {
		schema := at("requestBody", "content", "application/json", "schema")
		p.line("The body is a %s.\n", p.typeOf(schema...))
		if id == "cooldown" {
			p.line("<!-- not run: the server of this page has no tokens -->")
		}
		p.line("```sh")
		for _, name := range p.keys(at("requestBody", "content", "application/json", "examples")...) {
			example := at("requestBody", "content", "application/json", "examples", name)
			p.line("# %s", p.text(append(example, "summary")...))
			p.curl(path, id, p.raw(append(example, "value")...))
		}
		p.line("```\n")
	}
	var errors []string
	for _, status := range p.keys(at("responses")...) {
		response := at("responses", status)
		body := p.typeOf(append(response, "content", "application/json", "schema")...)
		if strings.Contains(body, "Problem") {
			errors = append(errors, status)
			continue
		}
		article := "a"
		if strings.ContainsAny(body[:1], "aeio") {
			article = "an"
		}
		p.line("- %s: %s The body is %s %s.", status, p.text(append(response, "description")...), article, body)
	}
	p.line("- [Errors](#errors): %s.", strings.Join(errors, ", "))
	for _, status := range []string{"200", "429"} {
		response := at("responses", status)
		if id != "take" && status == "429" || !slices.Contains(p.keys(at("responses")...), status) ||
			!slices.Contains(p.keys(append(response, "content", "application/json")...), "example") {
			continue
		}
		what := "The answer, on a new server:"
		switch {
		case status == "429":
			what = "A denial:"
		case method == "get":
		case len(p.keys(at("requestBody", "content", "application/json", "examples")...)) > 1:
			what = "The answer to the first example, on a new server:"
		}
		p.line("\n%s\n\n```json\n%s\n```", what,
			pretty(p.raw(append(response, "content", "application/json", "example")...)))
	}
}

// errors are the answers of all operations that are problems.
func (p *page) errors() {
	p.line("\n## Errors\n")
	p.line("The body of each error is a [Problem](#problem). `error` is for programs, and `message` for people.\n")
	p.line("| status | `error` | |\n|---|---|---|")
	rows := map[string]bool{}
	for _, path := range p.keys("paths") {
		method := p.keys("paths", path)[0]
		for _, status := range p.keys("paths", path, method, "responses") {
			response := []string{"paths", path, method, "responses", status}
			if p.name(append(response, "content", "application/json", "schema")...) == "Problem" {
				rows[fmt.Sprintf("| %s | `%s` | %s |", status,
					p.text(append(response, "content", "application/json", "example", "error")...),
					p.text(append(response, "description")...))] = true
			}
		}
	}
	p.line("%s", strings.Join(sortedKeys(rows), "\n"))
	p.line("\nA path that does not exist is answered with 404 and `not_found`, an internal error with 500 and `internal`.")
	p.line("\nFor example:\n\n```json\n%s\n```",
		pretty(p.raw("components", "responses", "Invalid", "content", "application/json", "example")))
}

// curl is a command that sends a body. One with a charge gets that first.
func (p *page) curl(path, id string, body json.RawMessage) {
	text := inline(body)
	if of := chargedBy[id]; of != "" {
		take := inline(p.raw("paths", "/v1/take", "post", "requestBody", "content", "application/json",
			"examples", of, "value"))
		p.line("charge=$(curl -s --json '%s' %s/v1/take | jq -r .charge)", take, p.host())
		text = strings.ReplaceAll(text, exampleCharge, `'"$charge"'`)
	}
	token := ""
	if id == "cooldown" {
		token = "-H 'Authorization: Bearer TOKEN' "
	}
	p.line("curl -s %s--json '%s' %s%s", token, text, p.host(), path)
}

func (p *page) schemas() {
	p.line("\n## Bodies")
	for _, name := range p.keys("components", "schemas") {
		at := []string{"components", "schemas", name}
		switch members := p.keys(at...); {
		case slices.Contains(members, "oneOf"):
			p.line("\n### %s\n\n%s\n", name, p.text(append(at, "description")...))
			p.union(name)
		case slices.Contains(members, "properties") && !strings.Contains(name, "By"):
			p.line("\n### %s\n", name)
			if slices.Contains(members, "description") {
				p.line("%s\n", p.text(append(at, "description")...))
			}
			p.members(append(at, "properties"), p.list(append(at, "required")...), nil)
		}
	}
}

// union is a body of one of several forms. Forms that are those of a Request and more show only
// what is more.
func (p *page) union(name string) {
	var forms [][]string
	head, rule, order := "|", "|---|", []string{}
	for _, i := range p.keys("components", "schemas", name, "oneOf") {
		at := []string{"components", "schemas", name, "oneOf", i}
		forms = append(forms, at)
		form := p.name(at...)
		_, by, _ := strings.Cut(form, "By")
		if by == "" {
			p.line("It may also be a %s.\n", p.typeOf(at...))
		}
		if name == "Request" {
			p.line("- By %s, `%s`: %s", strings.ToLower(by), form, p.text(append(at, "description")...))
			head += " by " + strings.ToLower(by) + " |"
			rule += "---|"
		}
		for _, member := range p.keys(append(at, "properties")...) {
			if !slices.Contains(order, member) {
				order = append(order, member)
			}
		}
	}
	if name != "Request" {
		p.line("Every form has the members of the same form of a [Request](#request), and also:\n")
		at := append(forms[0], "properties")
		p.members(at, nil, p.keys("components", "schemas", "ByAttributes", "properties"))
		return
	}
	p.line("\n| member %s type | |\n%s---|---|", head, rule)
	for _, member := range order {
		cells, described := "", []string(nil)
		for _, form := range forms {
			cell := ""
			if slices.Contains(p.keys(append(form, "properties")...), member) {
				cell, described = "optional", append(form, "properties", member)
			}
			if slices.Contains(p.list(append(form, "required")...), member) {
				cell = "required"
			}
			cells += cell + " | "
		}
		p.line("| `%s` | %s%s | %s |", member, cells, p.typeOf(described...),
			p.text(append(described, "description")...))
	}
}

// members is a table of properties, without some.
func (p *page) members(at, required, without []string) {
	p.line("| member | type | |\n|---|---|---|")
	for _, name := range p.keys(at...) {
		if slices.Contains(without, name) {
			continue
		}
		property := append(slices.Clip(at), name)
		kind := p.typeOf(property...)
		if !slices.Contains(required, name) {
			kind += ", optional"
		} else if strings.Contains(string(p.raw(property...)), `"null"`) {
			kind += " or null"
		}
		p.line("| `%s` | %s | %s |", name, kind, p.text(append(property, "description")...))
	}
}

func (p *page) headers() {
	p.line("\n## Header fields of decisions\n")
	p.line("| | type | |\n|---|---|---|")
	for _, name := range p.keys("components", "headers") {
		at := []string{"components", "headers", name}
		p.line("| `%s` | %s | %s |", name, p.text(append(at, "schema", "type")...),
			p.text(append(at, "description")...))
	}
}

func (p *page) clients() {
	p.line("\n## Clients\n")
	p.line("Generators can create a client from the document for most languages. A test generates these two, compiles them, and makes every call with them. First get the document:\n")
	p.line("```sh\ncurl -so openapi.json %s/openapi.json\n```\n", p.host())
	p.line("### Go\n\n[oapi-codegen](https://github.com/oapi-codegen/oapi-codegen) generates a package:\n")
	p.line("<!-- not run: the network; TestGeneratedClients of package server runs it -->\n```sh\ngo run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@%s -generate types,client -package stint -o stint/stint.gen.go openapi.json\n```\n",
		p.find("go.mod", `oapi-codegen/v2 (\S+)`))
	p.line("<!-- not run: TestGeneratedClients of package server compiles and runs it -->\n```go\n%s```\n",
		p.find("testdata/calls.go", `(?s)// Example\.\n\n(.*?)\n// End`))
	p.line("### TypeScript\n\n[clients/typescript](../clients/typescript/README.md) is a package with retries, a time budget and wrappers for frameworks. To generate a client instead, [openapi-typescript](https://openapi-ts.dev) generates the types, and openapi-fetch makes the calls:\n")
	p.line("<!-- not run: the network; TestGeneratedClients of package server runs it -->\n```sh\nnpm install openapi-fetch@%s\nnpx openapi-typescript@%s openapi.json -o stint.ts\n```\n",
		p.find("package.json", `"openapi-fetch": "(.*)"`), p.find("package.json", `"openapi-typescript": "(.*)"`))
	p.line("```typescript\n%s\n%s```\n", `import createClient from "openapi-fetch";
import type { paths } from "./stint.js";
`, p.find("testdata/calls.ts", `(?s)// Example\.\n\n(.*?)\n// End`))
	p.line("Generators for other languages read the same document, but are not tested. Each form of a body is a separate schema, numbers have formats (`int64`, `double`), and every error has the same body. Members that a generated client writes as null count as absent.")
}

// find returns what a pattern finds in a file of the tools.
func (p *page) find(file, pattern string) string {
	p.t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(testkit.ReadFile(p.t, tools+file))
	if found == nil {
		p.t.Fatalf("%s: no %s", file, pattern)
	}
	return found[1]
}

func (p *page) host() string { return p.text("servers", "0", "variables", "host", "default") }

// typeOf says what a schema takes: a link to a body, or a type and its bounds. That members of
// requests may be null, the page says of all at once.
func (p *page) typeOf(at ...string) string {
	if name := p.name(at...); name != "" && (slices.Contains(p.keys("components", "schemas", name), "properties") ||
		slices.Contains(p.keys("components", "schemas", name), "oneOf")) {
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	var s struct {
		Type                 any
		Items                json.RawMessage
		AdditionalProperties any
		Minimum, Maximum     json.Number
		MinLength, MaxLength int
		MaxItems             int
		MaxProperties        int
		Enum                 []string
	}
	if err := json.Unmarshal(p.raw(at...), &s); err != nil {
		p.t.Fatal(err)
	}
	kind := fmt.Sprint(s.Type)
	if list, ok := s.Type.([]any); ok {
		kind = fmt.Sprint(list[0])
	}
	switch {
	case s.Enum != nil:
		return "one of `" + strings.Join(s.Enum, "`, `") + "`"
	case kind == "array":
		kind += " of " + strings.Replace(p.typeOf(append(at, "items")...), "string", "strings", 1)
		if s.MaxItems > 0 {
			kind += fmt.Sprintf(", at most %d", s.MaxItems)
		}
	case s.MaxProperties > 0:
		kind += fmt.Sprintf(" of strings, at most %d", s.MaxProperties)
	case s.MaxLength > 0:
		kind += fmt.Sprintf(", %d to %d bytes", s.MinLength, s.MaxLength)
	case s.Maximum == "9007199254740992":
		kind += fmt.Sprintf(", %s to 2^53", s.Minimum)
	case s.Maximum != "":
		kind += fmt.Sprintf(", %s to %s", s.Minimum, s.Maximum)
	}
	return kind
}

// name is that of the component which a reference leads to.
func (p *page) name(at ...string) string {
	ref := p.at(at[:len(at)-1]...).members[at[len(at)-1]].ref()
	return ref[strings.LastIndex(ref, "/")+1:]
}

// at is what is at a place in the document, where references are followed.
func (p *page) at(at ...string) *node {
	p.t.Helper()
	n := p.doc
	for _, name := range at {
		n = n.members[name]
		if n == nil {
			p.t.Fatalf("the document has no %q", at)
		}
		if ref := n.ref(); ref != "" {
			n = p.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return n
}

func (p *page) raw(at ...string) json.RawMessage { return p.at(at...).raw }

func (p *page) keys(at ...string) []string { return p.at(at...).names }

// node is a value of the document: an object, whose members have an order, a list, whose members
// are named 0, 1 and so on, or another.
type node struct {
	raw     json.RawMessage
	names   []string
	members map[string]*node
}

func parse(t *testing.T, raw json.RawMessage) *node {
	t.Helper()
	n := &node{raw: raw, members: map[string]*node{}}
	d := json.NewDecoder(bytes.NewReader(raw))
	first := testkit.Must(d.Token())(t)
	if _, ok := first.(json.Delim); !ok {
		return n
	}
	for i := 0; d.More(); i++ {
		name := strconv.Itoa(i)
		if first == json.Delim('{') {
			key, _ := d.Token()
			name = key.(string)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		n.names = append(n.names, name)
		n.members[name] = parse(t, value)
	}
	return n
}

// ref is what an object refers to, or "". A member that may be null refers to one of two.
func (n *node) ref() (ref string) {
	if n == nil {
		return ""
	}
	if of := n.members["oneOf"]; of != nil && len(of.names) == 2 && of.members["1"].members["type"] != nil {
		return of.members["0"].ref()
	}
	if n.members["$ref"] == nil {
		return ""
	}
	_ = json.Unmarshal(n.members["$ref"].raw, &ref) // else it is none
	return ref
}

func (p *page) list(at ...string) (texts []string) {
	for _, name := range p.keys(at...) {
		texts = append(texts, p.text(append(at, name)...))
	}
	return texts
}

func (p *page) text(at ...string) (s string) {
	if err := json.Unmarshal(p.raw(at...), &s); err != nil {
		p.t.Fatalf("%q: %v", at, err)
	}
	return s
}

var (
	innermost = regexp.MustCompile(`[{\[][^{}\[\]]+[}\]]`)
	spaces    = regexp.MustCompile(`\s+`)
)

// inline is JSON on one line.
func inline(raw json.RawMessage) string {
	s := spaces.ReplaceAllString(string(raw), " ")
	return strings.NewReplacer("{ ", "{", " }", "}", "[ ", "[", " ]", "]").Replace(s)
}

// pretty is JSON on several lines, with the innermost objects on one each.
func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Indent(&b, raw, "", "  ") // of a document that is JSON
	return innermost.ReplaceAllStringFunc(b.String(), func(s string) string { return inline(json.RawMessage(s)) })
}
