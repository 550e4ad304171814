// Package messages formats parts of messages: lists of words, shortened values, and hints such as
// "did you mean".
package messages

import "strings"

// Shorten cuts a text for messages to at most the given number of bytes. If it cuts the text, it
// adds an ellipsis.
func Shorten(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// OneOf joins words for a sentence: "x, y or z".
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
