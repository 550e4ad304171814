// Package yamlread reads YAML files strictly, for stint's configuration and Envoy's rules. It turns
// text into nodes, reports errors with their position and a fix, resolves aliases, and bounds the
// number of values that aliases can produce.
package yamlread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// SyntaxError describes why text is not valid YAML.
type SyntaxError struct {
	Line int
	// Message describes the mistake and, if known, how to fix it.
	Message string
}

// Document is a YAML document. A file can contain several.
type Document struct {
	// Line is the line where the document begins.
	Line int
	// Root is the value of the document.
	Root *yaml.Node
}

// Parse returns all documents in text. Empty text has no documents.
func Parse(text []byte) ([]Document, *SyntaxError) {
	if i := invalidAt(text); i >= 0 {
		return nil, &SyntaxError{Line: lineAt(text, i), Message: "not UTF-8"}
	}
	var documents []Document
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var next yaml.Node
		switch err := parseNext(decoder, &next); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, syntaxError(text, err)
		}
		documents = append(documents, Document{Line: next.Line, Root: next.Content[0]})
	}
}

// parseNext reads the next document. Some inputs make the YAML library panic; parseNext turns the
// panic into an error.
func parseNext(decoder *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: cannot be read: %v", p)
		}
	}()
	err = decoder.Decode(n)
	if err == nil && (n.Kind != yaml.DocumentNode || len(n.Content) != 1) {
		err = errors.New("yaml: not a document")
	}
	return err
}

var (
	libraryError  = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	indentingTab  = regexp.MustCompile(`(?m)^ *\t[ \t]*[^\s#]`)
	controlCode   = regexp.MustCompile(`[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]`)
)

// hints lists some of the YAML library's messages, with hints about their usual causes.
var hints = []struct{ message, hint string }{
	{"did not find expected alphabetic or numeric character", `a text that begins with * or & needs quotes, as in "*.example.com"`},
	{"mapping values are not allowed in this context", `a text with ": " in it needs quotes; keys of one mapping are indented alike`},
	{"found character that cannot start any token", "a text that begins with %, @, a backquote or a tab needs quotes"},
	{"did not find expected ',' or ']'", "in brackets, a text with {, }, [, ] or a comma needs quotes"},
	{"did not find expected ',' or '}'", "in braces, a text with {, }, [, ] or a comma needs quotes"},
	{"could not find expected ':'", "a key without a colon"},
	{"did not find expected key", "keys of one mapping are indented alike"},
	{"did not find expected '-' indicator", "elements of one list are indented alike, each with its dash"},
	{"found unexpected end of stream", "a quote is not closed"},
}

// syntaxError turns an error from the YAML library into a SyntaxError: it finds the line and, for
// some errors, adds a hint.
func syntaxError(text []byte, err error) *SyntaxError {
	if tab := indentingTab.FindIndex(text); tab != nil {
		return &SyntaxError{Line: lineAt(text, tab[0]), Message: "a tab in the indentation; want spaces"}
	}
	parts := libraryError.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", "; "))
	if parts == nil {
		return &SyntaxError{Line: 1, Message: err.Error()}
	}
	message := parts[2]
	line, _ := strconv.Atoi(parts[1]) // 0 if the message has no line number
	if anchor := unknownAnchor.FindStringSubmatch(message); anchor != nil {
		return &SyntaxError{
			Line:    lineAt(text, bytes.Index(text, []byte("*"+anchor[1]))),
			Message: fmt.Sprintf("*%s has no anchor: a text that begins with * needs quotes, and an alias needs its anchor before it", anchor[1]),
		}
	}
	if code := controlCode.FindIndex(text); line == 0 && code != nil {
		line = lineAt(text, code[0])
	}
	for _, h := range hints {
		if message == h.message {
			if strings.HasPrefix(message, "did not find expected ") && !strings.HasSuffix(message, "character") {
				line++ // in these errors, the library counts lines from 0
			}
			message += ": " + h.hint
			break
		}
	}
	return &SyntaxError{Line: min(max(1, line), lineAt(text, len(text))), Message: "not YAML: " + message}
}

// lineAt returns the number of the line that contains the byte at index i, or 1 if i is negative.
func lineAt(text []byte, i int) int { return 1 + bytes.Count(text[:max(0, i)], []byte("\n")) }

// invalidAt returns the index of the first byte that is not valid UTF-8, or -1.
func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
