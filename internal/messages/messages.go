// Package messages formats parts of messages: lists of words, shortened values, and hints such as
// "did you mean".
package messages

import (
	"fmt"
	"strings"
)

// Shorten cuts text to at most the given number of bytes, and appends an ellipsis if it cuts
// anything.
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

// Hint returns ` (did you mean "limits"?)` if one of the known words is close to got, and ""
// otherwise.
func Hint(got string, known []string) string {
	if word, ok := Nearest(got, known); ok {
		return fmt.Sprintf(" (did you mean %q?)", word)
	}
	return ""
}

// Want returns the advice for a word that is not known: the words that are, and the one that was
// probably meant, as in `want limits or budget (did you mean "limits"?)`.
func Want(got string, known []string) string { return "want " + OneOf(known) + Hint(got, known) }

// Nearest returns the known word that differs least from got, unless it differs too much for its
// length. It ignores case and separators.
func Nearest(got string, known []string) (word string, ok bool) {
	const longest = 64 // longer words are not worth a guess
	if got == "" || len(got) > longest {
		return "", false
	}
	least := 0
	folded := fold(got)
	for _, w := range known {
		most, other := min(2, (len(w)+1)/3), fold(w)
		if len(other) < len(folded)-most || len(other) > len(folded)+most {
			continue
		}
		if n := slips(folded, other); n <= most && (word == "" || n < least) {
			word, least = w, n
		}
	}
	return word, word != ""
}

func fold(word string) string { return separators.Replace(strings.ToLower(word)) }

var separators = strings.NewReplacer("_", "", "-", "", " ", "", ".", "")

// slips returns the minimum number of changes that turn one word into the other. A change inserts,
// deletes or replaces a byte, or swaps two neighbors.
func slips(a, b string) int {
	// Column j of row i is the number of changes from the first i bytes of a to the first j bytes
	// of b. `last` is the row above the current one, and `before` is the row above that.
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
