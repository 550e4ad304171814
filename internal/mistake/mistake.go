// Package mistake has the error for one thing that is wrong with a set of policies. Package policy
// finds them, and package config adds in which line of which file each of them is.
package mistake

// Error is what is wrong with one key.
type Error struct {
	// Key is the path of the key, such as "tiers[1].limits"; "" is the whole.
	Key string
	// Message says what is wrong, and what would be right.
	Message string
	// Given are the keys that the mistake follows from beside its own. If one of them could not be
	// read, there may be no mistake.
	Given []string
}

// Error returns the key and the message.
func (e *Error) Error() string {
	if e.Key == "" {
		return e.Message
	}
	return e.Key + ": " + e.Message
}
