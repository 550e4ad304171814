package observe

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"hash/maphash"
	"strconv"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/label"
)

// longestKept is the maximum length in bytes of a subject that is kept unchanged. It bounds memory:
// the process keeps tens of thousands of subjects, and clients can choose their lengths.
const longestKept = 1 << 10

// names converts subjects for display.
type names struct {
	label func(subject string) string
	seed  maphash.Seed
	// block encrypts refs, and key authenticates them.
	block cipher.Block
	key   [sha256.Size]byte
}

// newNames returns names that show each subject as the given function converts it. For example,
// [label.Line] shows subjects of up to 128 bytes in full.
func newNames(labels func(subject string) string) *names {
	n := &names{label: labels, seed: maphash.MakeSeed()}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	_, _ = rand.Read(n.key[:])
	n.block, _ = aes.NewCipher(key[:]) // never fails for this length
	return n
}

// kept returns the form in which a subject is kept. It returns the subject unchanged unless it is
// longer than longestKept. A longer subject is truncated, and a hash of it is appended, so that
// different subjects stay different.
func (n *names) kept(subject string) string {
	if len(subject) <= longestKept {
		return subject
	}
	const hex = 16
	return subject[:longestKept] + strconv.FormatUint(maphash.String(n.seed, subject), hex)
}

// ref returns the ref of a kept subject; see seal. It returns "" if the subject was too long to be
// kept unchanged.
func (n *names) ref(kept string) string {
	if len(kept) > longestKept {
		return ""
	}
	return n.seal(kept)
}

func (n *names) short(kept string) string { return label.Tagged(kept, n.ref(kept)) }

// refTag is the length in bytes of the tag that begins a ref. It is long enough that two subjects
// practically never have the same tag.
const refTag = 12

// seal returns the ref of a subject, which identifies the subject where it cannot be shown. A ref
// is the encrypted subject, so no table of refs is needed. The keys exist only in this process, so
// no other process can decrypt a ref. The initialization vector is a keyed hash of the subject, as
// in RFC 5297, so a subject always has the same ref.
func (n *names) seal(subject string) string {
	tag := n.tag([]byte(subject))
	return base64.RawURLEncoding.EncodeToString(append(tag, n.crypt(tag, []byte(subject))...))
}

// subject returns the subject that a ref identifies, and reports whether the ref is valid.
func (n *names) subject(ref string) (string, bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(ref)
	if err != nil || len(sealed) < refTag || len(sealed) > refTag+stint.MaxSubject {
		return "", false
	}
	tag := sealed[:refTag]
	subject := n.crypt(tag, sealed[refTag:])
	return string(subject), hmac.Equal(tag, n.tag(subject))
}

func (n *names) tag(subject []byte) []byte {
	hash := hmac.New(sha256.New, n.key[:])
	_, _ = hash.Write(subject) // never fails
	return hash.Sum(nil)[:refTag]
}

func (n *names) crypt(tag, text []byte) []byte {
	var start [aes.BlockSize]byte
	copy(start[:], tag)
	out := make([]byte, len(text))
	cipher.NewCTR(n.block, start[:]).XORKeyStream(out, text)
	return out
}
