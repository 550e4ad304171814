package server

import (
	"encoding/json"
	"net/http"
)

// refuse answers with a mistake, in the form that all of stint's listeners have.
func refuse(w http.ResponseWriter, status int, word, message string) {
	answer(w, status, struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}{word, message})
}

// answer answers with JSON for people and programs.
func answer(w http.ResponseWriter, status int, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(body) // the client has gone: nobody to tell
}

// answerText answers with a line of text.
func answerText(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the client has gone: nobody to tell
}
