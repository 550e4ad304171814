package observe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// names turns subjects into what people are shown.
type names struct {
	label func(subject string) string
	key   [sha256.Size]byte
}

// newNames returns names under labels: those of package label, for instance.
func newNames(label func(subject string) string) *names {
	n := &names{label: label}
	_, _ = rand.Read(n.key[:]) // never fails
	return n
}

// ref returns what stands for a subject where it cannot be shown: the same for as long as the process lives, and nothing
// that others could find the subject by, because they lack the key.
func (n *names) ref(subject string) string {
	const size = 12 // bytes, in which no two subjects collide
	hash := hmac.New(sha256.New, n.key[:])
	_, _ = hash.Write([]byte(subject)) // never fails
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:size])
}
