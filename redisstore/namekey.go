package redisstore

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
)

// minNameKey is how long a name key must be in bytes.
const minNameKey = 32

// ErrNameKey is in the error of a process whose name key is not that of the Redis it uses, or that
// has none where there is one. It would count everyone a second time.
var ErrNameKey = errors.New("name key mismatch")

// Names are hashed with a random data key, which Redis holds sealed with the name key. To replace
// the name key is to seal the data key once more.
//
// The hash <prefix>:names has a field for each name key: its fingerprint, then a number that grows
// with every key, the fingerprint of the data key, and the data key itself, sealed.

// nameKey is a name key, and what follows from it.
type nameKey struct {
	fingerprint string
	seal        cipher.AEAD
}

func newNameKey(secret []byte) (k nameKey, err error) {
	if len(secret) < minNameKey {
		return k, &stint.InvalidError{Err: fmt.Errorf("a name key (store.name_key_file, redisstore.Config.NameKeys) has %d "+
			"bytes; want at least %d random ones, such as: openssl rand -base64 32", len(secret), minNameKey)}
	}
	if k.fingerprint, err = fingerprint(secret); err != nil {
		return k, err
	}
	wrap, err := hkdf.Key(sha256.New, secret, nil, "stint wrapping key", 32)
	if err != nil {
		return k, err
	}
	block, err := aes.NewCipher(wrap)
	if err != nil {
		return k, err
	}
	k.seal, err = cipher.NewGCMWithRandomNonce(block)
	return k, err
}

// fingerprint distinguishes keys without revealing them.
func fingerprint(key []byte) (string, error) {
	sum, err := hkdf.Key(sha256.New, key, nil, "stint fingerprint", 8)
	return hex.EncodeToString(sum), err
}

// sealed is a field: the data key, for one name key.
type sealed struct {
	number int
	data   string // the fingerprint of the data key
	text   string
}

func (f sealed) String() string { return fmt.Sprintf("%d %s %s", f.number, f.data, f.text) }

// readSealed reads a field. One that is not ours is numbered 0 and opens to nothing.
func readSealed(text string) (f sealed) {
	_, _ = fmt.Sscanf(text, "%d %s %s", &f.number, &f.data, &f.text) // what is missing stays empty
	return f
}

// open returns the data key in a field.
func (k *nameKey) open(text string) ([]byte, error) {
	in, err := base64.RawStdEncoding.DecodeString(readSealed(text).text)
	if err == nil {
		in, err = k.seal.Open(nil, nil, in, []byte(k.fingerprint))
	}
	if err != nil {
		return nil, fmt.Errorf("the data key of the name key %s is damaged in Redis: %w", k.fingerprint, err)
	}
	return in, nil
}

// nameKeys are those of a process: the current one, then the previous ones.
type nameKeys []nameKey

func newNameKeys(secrets [][]byte) (keys nameKeys, err error) {
	for _, secret := range secrets {
		key, err := newNameKey(secret)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// namesChange is a change to the fields: one that must still be there, one to set and those to
// remove. What is empty is none.
type namesChange struct {
	seen, value string
	set, to     string
	remove      []string
}

// dataKey is a data key that is in use, and the number of its field for the current name key.
type dataKey struct {
	key    []byte
	number int
}

func newDataKey() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return key
}

// settle returns the data key to use, given the fields in Redis and the one that was used until
// now, if any, and what to change in Redis before it is used.
func (keys nameKeys) settle(fields map[string]string, used dataKey) (data dataKey, change *namesChange, err error) {
	if len(keys) == 0 {
		if len(fields) > 0 {
			err = fmt.Errorf("%w: in this Redis names are hashed, with the name key %s, and this process has none; "+
				"give it that as store.name_key_file in the configuration (redisstore.Config.NameKeys), or another prefix or database",
				ErrNameKey, fingerprintsIn(fields))
		}
		return data, nil, err
	}
	current := &keys[0]
	if len(fields) == 0 { // no process has written any, or Redis has lost everything
		if data = used; data.key == nil {
			data = dataKey{newDataKey(), 1}
		}
		change, err = current.add(data, "", "")
		return data, change, err
	}
	last := 0
	for _, text := range fields {
		last = max(last, readSealed(text).number)
	}
	for i := range keys {
		text, ok := fields[keys[i].fingerprint]
		if !ok {
			continue
		}
		data.key, err = keys[i].open(text)
		switch {
		case err != nil:
		case i > 0:
			data.number = last + 1
			change, err = current.add(data, keys[i].fingerprint, text)
		default:
			data.number = readSealed(text).number
			if len(keys) == 1 {
				change = current.retire(fields)
			}
		}
		return data, change, err
	}
	if used.key != nil {
		of, err := fingerprint(used.key)
		for field, text := range fields {
			if err == nil && readSealed(text).data == of {
				if used.number > last { // Redis went back to what it was before the name key was replaced
					change, err = current.add(used, field, text)
				} // else it was replaced, and this process has not been started since
				return used, change, err
			}
		}
	}
	return data, nil, fmt.Errorf("%w: in this Redis names are hashed with the name key %s, and this process has %s; "+
		"give it the former, as store.previous_name_key_file if it is to be replaced (redisstore.Config.NameKeys)",
		ErrNameKey, fingerprintsIn(fields), keys)
}

// add is the change that adds a field for the key, if another one is still as it was seen.
func (k *nameKey) add(data dataKey, seen, value string) (*namesChange, error) {
	of, err := fingerprint(data.key)
	text := base64.RawStdEncoding.EncodeToString(k.seal.Seal(nil, nil, data.key, []byte(k.fingerprint)))
	return &namesChange{seen: seen, value: value, set: k.fingerprint, to: sealed{data.number, of, text}.String()}, err
}

// retire is the change that removes the fields of older keys, if there are any: a process that has
// no previous key is a sign that nobody needs them.
func (k *nameKey) retire(fields map[string]string) *namesChange {
	own := fields[k.fingerprint]
	change := &namesChange{seen: k.fingerprint, value: own}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if readSealed(fields[field]).number < readSealed(own).number {
			change.remove = append(change.remove, field)
		}
	}
	if len(change.remove) == 0 {
		return nil
	}
	return change
}

func (keys nameKeys) String() string {
	var all []string
	for i := range keys {
		all = append(all, keys[i].fingerprint)
	}
	return strings.Join(all, " and ")
}

// fingerprintsIn lists those of the fields, as far as they are ours.
func fingerprintsIn(fields map[string]string) string {
	var all []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if _, err := hex.DecodeString(field); err == nil {
			all = append(all, field)
		}
	}
	return strings.Join(all, " or ")
}

// namesKey is the key of the fields.
func (s *Store) namesKey() string { return s.prefix + ":names" }

// settleNames finds out how names are written in this Redis, and writes them so from now on.
func (s *Store) settleNames(ctx context.Context) error {
	var used dataKey
	if n := s.names.Load(); n != nil {
		used = n.data
	}
	for range 10 {
		fields, err := s.conn.Do(ctx, s.conn.B().Hgetall().Key(s.namesKey()).Build()).AsStrMap()
		if err != nil {
			return err
		}
		data, change, err := s.nameKeys.settle(fields, used)
		if err != nil {
			return err
		}
		if s.guest && change != nil {
			if len(fields) == 0 {
				return fmt.Errorf("%w: this Redis has none yet, or has just lost its data; "+
					"start a server first, which sets it", ErrNameKey)
			}
			change = nil
		}
		done := int64(1)
		if change != nil {
			done, err = namesScript.do(ctx, &s.conn, []string{s.namesKey()},
				append([]string{change.seen, change.value, change.set, change.to}, change.remove...)).AsInt64()
		}
		switch {
		case err != nil:
			return err
		case done == 0:
			continue // somebody else was faster
		case !bytes.Equal(data.key, used.key) || data.number != used.number:
			s.names.Store(newNames(data))
		}
		return nil
	}
	return errors.New("the name keys in Redis keep changing")
}

const (
	// namesEvery is how often a process looks whether names are still written in the same way: for
	// so long processes may count apart after Redis has lost everything.
	namesEvery = 2 * time.Second
	// namesTime is how long that may take.
	namesTime = time.Second
)

// watchNames looks after the data key in Redis until the store is closed: it puts it back if Redis
// has lost it, and uses another one that was there first.
func (s *Store) watchNames(ctx context.Context) {
	for {
		select {
		case <-time.After(namesEvery):
		case <-ctx.Done():
			return
		}
		before := s.names.Load()
		within, cancel := context.WithTimeout(ctx, namesTime)
		err := s.settleNames(within)
		cancel()
		switch {
		case errors.Is(err, ErrNameKey):
			if before.err == nil {
				s.logger.Error("stint: Redis is no longer used", "cause", err)
			}
			s.names.Store(refusedNames(before.data, err))
		case err != nil: // it is away, and calls show that
		case before.err != nil:
			s.names.CompareAndSwap(before, newNames(before.data))
			s.logger.Info("stint: Redis is used again: it has the right name key")
		case !bytes.Equal(s.names.Load().data.key, before.data.key):
			s.logger.Warn("stint: Redis lost its data, and another process began to hash names with a new key; this one follows")
		}
	}
}
