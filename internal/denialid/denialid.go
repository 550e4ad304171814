// Package denialid creates the ids of denials. The command "stint why" finds a denial by its id.
package denialid

import (
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"strconv"
	"time"
)

// ID identifies the denials of a subject in one second. It consists of the Unix time and a hash of
// the subject. The key of the hash exists only in this process, so no other process can relate the
// ID to the subject.
type ID uint64

var seed = maphash.MakeSeed()

// length is the length of an ID as text.
const length = 16

// New returns the id of a denial of a subject at the given time.
func New(at time.Time, subject string) ID {
	return ID(uint64(uint32(at.Unix()))<<32 | uint64(uint32(maphash.String(seed, subject))))
}

// Parse parses the text of an id. It reports whether the text is valid.
func Parse(text string) (ID, bool) {
	n, err := strconv.ParseUint(text, 16, 64)
	return ID(n), err == nil && len(text) == length
}

// Append appends the text of an id, which is 16 hexadecimal digits.
func (id ID) Append(b []byte) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], uint64(id))
	return hex.AppendEncode(b, raw[:])
}

// String returns the text of an id.
func (id ID) String() string { return string(id.Append(nil)) }

// Time returns the time of the denial, in whole seconds.
func (id ID) Time() time.Time { return time.Unix(int64(id>>32), 0) }

// Of reports whether the id identifies a denial of the given subject.
func (id ID) Of(subject string) bool { return uint32(id) == uint32(New(time.Time{}, subject)) }
