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

// longestKept is how long a subject may be in bytes to be remembered as it is. There may be tens of
// thousands, and who sends requests chooses how long theirs are.
const longestKept = 1 << 10

// names turns subjects into what people are shown.
type names struct {
	label func(subject string) string
	seed  maphash.Seed
	// block and key are those of refs.
	block cipher.Block
	key   [sha256.Size]byte
}

// newNames returns names under labels: those of package label, for instance.
func newNames(labels func(subject string) string) *names {
	n := &names{label: labels, seed: maphash.MakeSeed()}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	_, _ = rand.Read(n.key[:])
	n.block, _ = aes.NewCipher(key[:]) // never fails for this length
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

// ref returns what stands for a subject that is remembered. It is "" for one that is not kept as it
// is.
func (n *names) ref(kept string) string {
	if len(kept) > longestKept {
		return ""
	}
	return n.seal(kept)
}

// short returns what is shown of a subject that is remembered where names are not shown in full.
func (n *names) short(kept string) string { return label.Tagged(kept, n.ref(kept)) }

// refTag is how many bytes a ref begins with that no two subjects have in common.
const refTag = 12

// seal returns what stands for a subject where it cannot be shown: the subject, encrypted with keys
// that end with the process, so that nothing need be remembered and nobody else can read it. A
// subject has the same ref every time, because the encryption starts from a hash of it, as that of
// RFC 5297 does.
func (n *names) seal(subject string) string {
	tag := n.tag([]byte(subject))
	return base64.RawURLEncoding.EncodeToString(append(tag, n.crypt(tag, []byte(subject))...))
}

// subject returns the subject that a ref stands for.
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

// crypt encrypts and decrypts.
func (n *names) crypt(tag, text []byte) []byte {
	var start [aes.BlockSize]byte
	copy(start[:], tag)
	out := make([]byte, len(text))
	cipher.NewCTR(n.block, start[:]).XORKeyStream(out, text)
	return out
}
