package config

import (
	"strings"
	"testing"
)

// FuzzParse reads anything: a set or mistakes come of it, the same ones every time, each in a place
// and in one line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	for _, test := range good {
		f.Add([]byte(test.text))
	}
	for _, test := range wrong {
		if len(test.text) < 10_000 {
			f.Add([]byte(test.text))
		}
	}
	for _, form := range forms {
		for _, value := range form.values {
			f.Add([]byte(strings.ReplaceAll(form.text, "VALUE", value)))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := Parse("stint.yaml", text)
		again, errAgain := Parse("stint.yaml", text)
		if (set == nil) == (err == nil) || (again == nil) != (set == nil) {
			t.Fatalf("got %v, %v, then %v, %v", set, err, again, errAgain)
		}
		if err == nil {
			return
		}
		if err.Error() != errAgain.Error() {
			t.Errorf("got\n%v\nthen\n%v", err, errAgain)
		}
		mistakes := mistaken(t, err).Mistakes
		if len(mistakes) == 0 {
			t.Fatalf("got %v, want mistakes", err)
		}
		lines := 1
		for _, c := range string(text) {
			if strings.ContainsRune("\n\r\u0085\u2028\u2029", c) { // what ends a line in YAML
				lines++
			}
		}
		for _, m := range mistakes {
			if m.File != "stint.yaml" || m.Line < 1 || m.Line > lines || m.Message == "" ||
				strings.ContainsAny(m.text(), "\n\r\x00\x1b") {
				t.Errorf("a mistake without a place or in more than a line: %+v", m)
			}
		}
	})
}
