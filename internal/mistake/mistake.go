// Package mistake has the error for one mistake in a set of policies. Package policy finds the
// mistakes, and package config adds the file and line of each.
package mistake

// Error is a mistake in one key.
type Error struct {
	// Key is the path of the key, such as "tiers[1].limits"; "" is the whole set.
	Key string
	// Message says what is wrong, and how to fix it.
	Message string
	// Given are other keys that the mistake depends on. If one of them could not be read, there may
	// be no mistake.
	Given []string
}

// Error returns the key and the message.
func (e *Error) Error() string {
	if e.Key == "" {
		return e.Message
	}
	return e.Key + ": " + e.Message
}
