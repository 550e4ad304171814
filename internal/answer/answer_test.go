package answer_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stint-limiter/stint/internal/answer"
)

func TestAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer func(http.ResponseWriter)
		status int
		media  string
		body   string
	}{
		{"a problem", func(w http.ResponseWriter) { answer.Refuse(w, 404, "not_found", `No "<a>" & <b>.`) },
			404, "application/json", `{"error":"not_found","message":"No \"<a>\" & <b>."}` + "\n"},
		{"a value", func(w http.ResponseWriter) { answer.JSON(w, 200, map[string]int{"a": 1}) },
			200, "application/json", `{"a":1}` + "\n"},
		{"a value for people", func(w http.ResponseWriter) { answer.Indented(w, 200, map[string]int{"a": 1}) },
			200, "application/json", "{\n  \"a\": 1\n}\n"},
		{"what JSON cannot hold", func(w http.ResponseWriter) { answer.JSON(w, 200, []any{"a", math.Inf(1)}) },
			500, "application/json", `{"error":"internal","message":"The answer could not be written."}` + "\n"},
		{"text", func(w http.ResponseWriter) { answer.Text(w, 503, "draining\n") },
			503, "text/plain; charset=utf-8", "draining\n"},
	}
	for _, test := range tests {
		w := httptest.NewRecorder()
		test.answer(w)
		if w.Code != test.status || w.Body.String() != test.body {
			t.Errorf("%s: got %d, %q; want %d, %q", test.name, w.Code, w.Body, test.status, test.body)
		}
		for name, want := range map[string]string{
			"Content-Type": test.media, "Content-Length": strconv.Itoa(len(test.body)),
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", test.name, name, got, want)
			}
		}
	}
}
