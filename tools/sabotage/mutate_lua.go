package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// luaToken is a Lua word, number, string or operator.
type luaToken struct {
	text string
	from int
	line int
}

func (t luaToken) to() int { return t.from + len(t.text) }

// The kinds of Lua tokens, tried in this order. The first two, comments and spaces, are skipped.
var luaPattern = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`(?s:--\[\[.*?\]\])|--[^\n]*`,
	`\s+`,
	`'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|(?s:\[\[.*?\]\])`,
	`[A-Za-z_][A-Za-z_0-9]*`,
	`0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?`,
	`\.\.\.|\.\.|==|~=|<=|>=|.`,
}, "|") + `)`)

// luaTokens splits a source into tokens.
func luaTokens(source string) []luaToken {
	var tokens []luaToken
	line := 1
	for at := 0; at < len(source); {
		text := luaPattern.FindString(source[at:])
		if text == "" { // a byte that is not UTF-8
			text = source[at : at+1]
		}
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "--") {
			tokens = append(tokens, luaToken{text, at, line})
		}
		at, line = at+len(text), line+strings.Count(text, "\n")
	}
	return tokens
}

// luaOthers lists the replacements for Lua words and operators.
var luaOthers = map[string][]string{
	"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"}, "==": {"~="}, "~=": {"=="},
	"and": {"or"}, "or": {"and"}, "+": {"-"}, "-": {"+"}, "*": {"/"}, "/": {"*"}, "%": {"*"},
	"true": {"false"}, "false": {"true"}, "floor": {"ceil"}, "ceil": {"floor"}, "min": {"max"}, "max": {"min"},
}

var (
	luaWord   = regexp.MustCompile(`^[A-Za-z_]`)
	luaNumber = regexp.MustCompile(`^[0-9]+$`)
	// Words after which a value or a statement begins.
	luaOpens = []string{"and", "or", "not", "return", "then", "else", "do", "in", "if", "elseif", "while", "until",
		"repeat"}
	// Words that cannot begin a statement that can be dropped.
	luaFirst = []string{"local", "function", "if", "elseif", "else", "for", "while", "repeat", "until", "do", "end",
		"then", "and", "or", "not", "in", "nil", "true", "false"}
)

// endsValue reports whether a value may end with the token, so that an operator after it is a
// binary one.
func endsValue(t string) bool {
	if luaWord.MatchString(t) {
		return !slices.Contains(luaOpens, t)
	}
	return strings.ContainsAny(t[:1], `0123456789)]}'"`) || t == "..."
}

// lua collects the mutations of a Lua file.
func (m *mutator) lua() {
	tokens := luaTokens(string(m.source))
	for i, t := range tokens {
		before := ""
		if i > 0 {
			before = tokens[i-1].text
		}
		switch {
		case t.text == "-" && !endsValue(before): // a sign, not a subtraction
		case (t.text == "min" || t.text == "max" || t.text == "floor" || t.text == "ceil") &&
			(i+1 == len(tokens) || tokens[i+1].text != "("): // assigned to a name, not called
		case luaNumber.MatchString(t.text):
			if v, err := strconv.ParseInt(t.text, 10, 64); err == nil {
				m.swap(t.from, t.text, strconv.FormatInt(v+1, 10))
			}
		case t.text == "not":
			m.replace(t.from, t.to(), "", "removed not")
		case t.text == "if" || t.text == "elseif":
			then := slices.IndexFunc(tokens[i:], func(t luaToken) bool { return t.text == "then" })
			if then < 2 {
				continue
			}
			from, to := tokens[i+1].from, tokens[i+then-1].to()
			condition := string(m.source[from:to])
			m.replace(from, to, "not ("+condition+")", "negated the condition")
			m.replace(from, to, "("+condition+") and false", "skipped the if")
		default:
			for _, other := range luaOthers[t.text] {
				m.swap(t.from, t.text, other)
			}
		}
	}
	m.luaStatements(tokens)
}

// luaStatements collects mutations that drop a statement on its own line.
func (m *mutator) luaStatements(tokens []luaToken) {
	for i := 0; i < len(tokens); {
		next := i + 1
		for next < len(tokens) && tokens[next].line == tokens[i].line {
			next++
		}
		line := tokens[i:next]
		first, last := line[0].text, line[len(line)-1].text
		if luaWord.MatchString(first) && !slices.Contains(luaFirst, first) && whole(line) && endsValue(last) &&
			(i == 0 || startsStatement(tokens[i-1].text)) &&
			(next == len(tokens) || !continues(tokens[next].text)) {
			from, to := line[0].from, line[len(line)-1].to()
			m.replace(from, to, "", "dropped: "+brief(string(m.source[from:to])))
		}
		i = next
	}
}

// startsStatement reports whether a statement may begin after the token.
func startsStatement(before string) bool {
	switch before {
	case "then", "else", "do", "repeat":
		return true
	}
	return endsValue(before)
}

// continues reports whether the token continues the statement before it.
func continues(t string) bool { return !luaWord.MatchString(t) || t == "and" || t == "or" }

// whole reports whether the tokens of a line close everything that they open, and are a statement,
// not a field of a table.
func whole(line []luaToken) bool {
	depth, statement := 0, line[0].text == "return" || line[0].text == "break"
	for i, t := range line {
		switch t.text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		case "function", "then", "do", "end":
			return false
		case "=":
			statement = statement || depth == 0
		}
		if depth < 0 {
			return false
		}
		if i == len(line)-1 && t.text == ")" {
			statement = true
		}
	}
	return depth == 0 && statement
}
