// Package answer writes the answers of stint's own listeners, so that all answers have the same
// form. Errors look like this:
//
//	{"error": "not_found", "message": "There is nothing here."}
//
// error is a word for programs, and message is a sentence for people.
package answer

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// Problem describes why a request failed.
type Problem struct {
	// Error is one word, for programs. The word for a problem never changes.
	Error string `json:"error"`
	// Message is a sentence for people. Its wording may change.
	Message string `json:"message"`
}

// Refuse answers with a problem as JSON.
func Refuse(w http.ResponseWriter, status int, word, message string) {
	JSON(w, status, Problem{word, message})
}

// JSON answers with body as JSON on one line.
func JSON(w http.ResponseWriter, status int, body any) { write(w, status, body, "") }

// Indented answers with body as indented JSON, for people to read.
func Indented(w http.ResponseWriter, status int, body any) { write(w, status, body, "  ") }

// unwritable is the answer when a value cannot be encoded, which does not happen with the values
// that callers pass.
const unwritable = `{"error":"internal","message":"The answer could not be written."}` + "\n"

func write(w http.ResponseWriter, status int, body any, indent string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(body); err != nil {
		b.Reset()
		b.WriteString(unwritable)
		status = http.StatusInternalServerError
	}
	send(w, status, "application/json", b.Bytes())
}

// Text answers with plain text.
func Text(w http.ResponseWriter, status int, text string) {
	send(w, status, "text/plain; charset=utf-8", []byte(text))
}

// send writes a complete answer that must not be cached.
func send(w http.ResponseWriter, status int, media string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone away needs no answer
}
