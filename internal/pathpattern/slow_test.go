package pathpattern

import "strings"

// slowFits is what a pattern means, by its segments, trying every length of a gap.
func slowFits(pattern, clean string) bool {
	return segmentsFit(split(pattern), split(clean))
}

func split(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

func segmentsFit(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] == "**" {
		for i := range len(path) + 1 {
			if segmentsFit(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	return len(path) > 0 && wordFits(pattern[0], path[0]) && segmentsFit(pattern[1:], path[1:])
}

func wordFits(pattern, word string) bool {
	if strings.HasPrefix(pattern, "{") {
		return word != ""
	}
	prefix, suffix, star := strings.Cut(pattern, "*")
	if !star {
		return word == pattern
	}
	return len(word) >= len(prefix)+len(suffix) && strings.HasPrefix(word, prefix) && strings.HasSuffix(word, suffix)
}
