package observe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"hash/maphash"
	"slices"
	"strconv"
)

// longestKept is how long a subject may be in bytes to be remembered as it is. There may be tens of
// thousands, and who sends requests chooses how long theirs are.
const longestKept = 1 << 10

// names turns subjects into what people are shown.
type names struct {
	label func(subject string) string
	key   [sha256.Size]byte
	seed  maphash.Seed
}

// newNames returns names under labels: those of package label, for instance.
func newNames(label func(subject string) string) *names {
	n := &names{label: label, seed: maphash.MakeSeed()}
	_, _ = rand.Read(n.key[:]) // never fails
	return n
}

// kept returns as what a subject is remembered: as it is or, if it is too long, as its beginning,
// which is all that is ever shown, and a number that distinguishes it from others.
func (n *names) kept(subject string) string {
	if len(subject) <= longestKept {
		return subject
	}
	const hex = 16
	return subject[:longestKept] + strconv.FormatUint(maphash.String(n.seed, subject), hex)
}

// ref returns what stands for a subject where it cannot be shown: the same for as long as the
// process lives, and nothing that others could find the subject by, because they lack the key. It
// is "" for one that is not kept as it is.
func (n *names) ref(subject string) string {
	if len(subject) > longestKept {
		return ""
	}
	const size = 12 // bytes, in which no two subjects collide
	hash := hmac.New(sha256.New, n.key[:])
	_, _ = hash.Write([]byte(subject)) // never fails
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:size])
}

// find returns the subject among counters that a ref stands for.
func (n *names) find(ref string, among []counter) (string, bool) {
	i := slices.IndexFunc(among, func(c counter) bool { return n.ref(c.name) == ref })
	if i < 0 {
		return "", false
	}
	return among[i].name, true
}
