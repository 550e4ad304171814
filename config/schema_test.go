package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestSchemaAgrees holds the schema to the reader: both accept a file, or both refuse it.
func TestSchemaAgrees(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	parsed := testkit.Must(jsonschema.UnmarshalJSON(bytes.NewReader(Schema())))(t)
	if err := compiler.AddResource(schemaFile, parsed); err != nil {
		t.Fatal(err)
	}
	s := testkit.Must(compiler.Compile(schemaFile))(t)
	unused := maps.Clone(beyond)
	check := func(name, text string) {
		t.Helper()
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return // no YAML: editors tell without a schema
		}
		_, refused := Parse("stint.yaml", []byte(text))
		objection := s.Validate(value)
		_, known := beyond[name]
		delete(unused, name)
		switch {
		case refused == nil && objection != nil:
			t.Errorf("%s: read, but the schema says %v", name, objection)
		case refused != nil && objection == nil && !known:
			t.Errorf("%s: the schema does not mind\n%v", name, refused)
		case known && (refused == nil || objection != nil):
			t.Errorf("%s is no longer beyond the schema", name)
		}
	}
	check("everything", everything)
	for _, test := range good {
		check(test.name, test.text)
	}
	for _, test := range wrong {
		check(test.name, test.text)
	}
	for _, form := range forms {
		for _, value := range form.values {
			check(form.key+": "+value, strings.ReplaceAll(form.text, "VALUE", value))
		}
	}
	for name, text := range guideExamples(t) {
		check(name, text)
	}
	for name := range unused {
		t.Errorf("no file is called %q", name)
	}
}

// namePattern is what names of tiers, policies, identities and the like have.
const namePattern = `^[A-Za-z0-9_.-]{1,64}$`

// limitPattern is the form of what stint.ParseLimit reads, and of unlimited.
const (
	windowForm   = `([0-9]*d|([0-9]*d)?([0-9.]*(ns|us|µs|μs|ms|s|m|h))+)`
	calendarForm = `(day|week|month|year)(\s+on\s+[0-9]+|\s+from\s+[A-Za-z]+)?(\s+in\s+[A-Za-z0-9_+/-]+)?`
	limitForm    = `\s*([A-Za-z0-9_.-]{1,64}\s*:\s*)?[0-9]+/(` + windowForm +
		`(\s+burst\s+[0-9]+x?)?(\s+(sliding|bucket|fixed|concurrency))?|` + calendarForm + `)(\s+leased)?(\s+hold-through)?(\s+charge-expired)?\s*`
	limitPattern   = `^(unlimited(/` + windowForm + `)?|` + limitForm + `)$`
	claimedPattern = `^` + limitForm + `$`
	sharePattern   = `^([1-9][0-9]?|100)%$`
)

type object = map[string]any

var (
	// enums are the keys whose values are the words in backquotes in their comments.
	enums = map[string]bool{"failureDoc.mode": true, "headersDoc.format": true,
		"headersDoc.reset": true, "gatewayDoc.unusual_paths": true}
	// names are what keys, labels and headers can hold.
	names = map[string]bool{"tierDoc.name": true, "tierDoc.scope": true, "policyDoc.name": true}
	// required are the keys that a structure cannot do without.
	required = map[string][]string{"limitDoc": {"limit", "claim", "max"}, "tierDoc": {"name", "identity"},
		"policyDoc": {"name"}, "routeDoc": {"upstream"}, "webhookDoc": {"url", "key_file"}}
)

// schema returns the JSON Schema of a file. A file may be one of several, so that nothing is
// required at the top level.
func (l *language) schema(t *testing.T) []byte {
	t.Helper()
	text := object{"type": []string{"string", "number", "boolean"}}
	limit := object{"type": "string", "pattern": limitPattern,
		"examples": []string{"100/1m", "10/1m burst 2x", "login: 5/15m", "20/30s concurrency",
			"10000/month in Europe/Berlin", "unlimited"}}
	status := object{"anyOf": []object{{"type": "integer", "minimum": 100, "maximum": 599},
		{"type": "string", "pattern": statusPattern}}}
	definitions := object{
		"text":       text,
		"list":       orList(object{"type": text["type"], "minLength": 1}),
		"limitText":  limit,
		"limitList":  orList(ref("limitText")),
		"ruleLimits": orList(object{"anyOf": []object{ref("limitText"), ref("limit")}}),
		"tierLimits": object{"anyOf": []object{
			ref("ruleLimits"), {"type": "object", "additionalProperties": ref("ruleLimits")}}},
		"status":   status,
		"statuses": orList(ref("status")),
		"duration": object{"type": "string", "minLength": 1, "pattern": durationPattern,
			"examples": []string{"15ms", "1m30s", "1h", "1d"}},
		"budget":  object{"anyOf": []object{ref("duration"), {"const": strictBudget}}},
		"shares":  orList(object{"type": "string", "pattern": sharePattern, "examples": []string{"80%"}}),
		"percent": object{"type": "string", "pattern": percentPattern, "examples": []string{"25%", "0.5%"}},
		"size": object{"anyOf": []object{{"type": "integer", "minimum": 1},
			{"type": "string", "pattern": syntax.SizePattern}}},
		"integer": object{"type": "integer", "minimum": 0},
		"boolean": object{"type": "boolean"},
	}
	for name := range l.structs {
		if name == "document" {
			continue
		}
		s := l.structure(name)
		if name == "costDoc" {
			s = object{"anyOf": []object{ref("integer"), s}}
		}
		definitions[strings.TrimSuffix(name, "Doc")] = s
	}
	root := l.structure("document")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "stint configuration"
	root["$defs"] = definitions
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (l *language) structure(name string) object {
	properties := object{}
	for _, k := range l.structs[name] {
		p := typeSchema(k.typ)
		if enums[name+"."+k.key] {
			p = object{"enum": k.words()}
			if k.typ == "list" {
				p = orList(p)
			}
		}
		if name == "limitDoc" {
			p = map[string]object{"limit": {"type": "string", "pattern": claimedPattern},
				"claim": {"type": []string{"string", "number", "boolean"}, "minLength": 1},
				"max":   {"type": "integer", "minimum": 1}}[k.key]
		}
		if names[name+"."+k.key] {
			p["pattern"] = namePattern
		}
		if name == "document" && strings.HasPrefix(k.typ, "map") {
			p["propertyNames"] = object{"pattern": namePattern}
		}
		p["description"] = k.doc
		properties[k.key] = p
	}
	s := object{"type": "object", "additionalProperties": false, "properties": properties}
	if required[name] != nil {
		s["required"] = required[name]
	}
	if name == "requestIDDoc" {
		s["anyOf"] = []object{{"required": []string{"header"}}, {"required": []string{"derive"}}}
	}
	if name == "matchDoc" || name == "gatewayDoc" {
		s["minProperties"] = 1
	}
	return s
}

func typeSchema(typ string) object {
	switch {
	case strings.HasPrefix(typ, "*"):
		return typeSchema(typ[1:])
	case strings.HasPrefix(typ, "[]"):
		return object{"type": "array", "items": typeSchema(typ[2:])}
	case strings.HasPrefix(typ, "map[string]"):
		return object{"type": "object", "additionalProperties": typeSchema(strings.TrimPrefix(typ, "map[string]")),
			"propertyNames": object{"minLength": 1}}
	}
	if name, ok := map[string]string{"string": "text", "int64": "integer", "bool": "boolean"}[typ]; ok {
		return ref(name)
	}
	return ref(strings.TrimSuffix(typ, "Doc"))
}

func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

// orList is the schema of something, or of a list of it that is not empty.
func orList(one object) object {
	return object{"anyOf": []object{one, {"type": "array", "minItems": 1, "items": one}}}
}

// guideExamples returns every example in the guide, by the line that it begins in. One that is a
// part of a configuration is made whole.
func guideExamples(t *testing.T) map[string]string {
	t.Helper()
	text := testkit.Must(os.ReadFile(guideFile))(t)
	examples := map[string]string{}
	name := "" // of the example that the line is in
	line := 0
	for l := range strings.Lines(string(text)) {
		line++
		switch {
		case l == "```yaml\n":
			name = fmt.Sprintf("the example in line %d of %s", line, guideFile)
		case l == "```\n" && name != "":
			if !strings.Contains(examples[name], "tiers:") {
				examples[name] += base
			}
			name = ""
		case name != "":
			examples[name] += l
		}
	}
	if len(examples) < 10 {
		t.Fatalf("only %d examples found in %s", len(examples), guideFile)
	}
	return examples
}
