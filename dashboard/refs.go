package dashboard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/stint-limiter/stint"
)

// refs are texts that stand for subjects. They hold the subject, encrypted with a key that only
// this process has, so nothing needs to be remembered however many are shown.
//
// A subject has the same ref every time. For that its nonce is derived from it: no two subjects
// share one.
type refs struct {
	seal  cipher.AEAD
	nonce [sha256.Size]byte
}

// refMark distinguishes these refs from those of a monitor, which never have this character.
const refMark = "~"

func newRefs() (*refs, error) {
	r := &refs{}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	_, _ = rand.Read(r.nonce[:])
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	r.seal, err = cipher.NewGCM(block)
	return r, err
}

// of returns the ref of a subject.
func (r *refs) of(subject string) string {
	hash := hmac.New(sha256.New, r.nonce[:])
	_, _ = hash.Write([]byte(subject)) // never fails
	nonce := hash.Sum(nil)[:r.seal.NonceSize()]
	return refMark + base64.RawURLEncoding.EncodeToString(r.seal.Seal(nonce, nonce, []byte(subject), nil))
}

// subject returns the subject of a ref.
func (r *refs) subject(ref string) (string, bool) {
	text, marked := strings.CutPrefix(ref, refMark)
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	size := r.seal.NonceSize()
	if !marked || err != nil || len(sealed) < size || len(sealed) > size+stint.MaxSubject+r.seal.Overhead() {
		return "", false
	}
	subject, err := r.seal.Open(nil, sealed[:size], sealed[size:], nil)
	return string(subject), err == nil
}
