package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
)

// minNameKey is the minimum length of a name key in bytes.
const minNameKey = 32

// ErrNameKey is in the error chain of every call of a process that lacks the name key with which
// names in its Redis are hashed. Such a process would count every subject separately from the other
// processes.
var ErrNameKey = errors.New("name key mismatch")

// The hash <prefix>:names in Redis has two fields: the fingerprint of the name key that is in use,
// and the fingerprint of the key that will replace it.
const (
	keyInUse = "key"
	keyNext  = "next"
)

// nameKeys are the name keys of a process: the current one, then the previous ones.
type nameKeys []*names

func newNameKeys(secrets [][]byte) (keys nameKeys, err error) {
	for _, secret := range secrets {
		if len(secret) < minNameKey {
			return nil, &stint.InvalidError{Err: fmt.Errorf("a name key (store.name_key_file, redisstore.Config.NameKeys) has %d "+
				"bytes; want at least %d random bytes, for example from: openssl rand -base64 32", len(secret), minNameKey)}
		}
		keys = append(keys, newNames(secret))
	}
	return keys, nil
}

// choose returns the key with which to hash names, given the fields in Redis. If a field must be
// set before the key is used, choose also returns that field and its value. While the key in use is
// the previous key of a process, the process announces its current key in keyNext, and hashes with
// the previous one. The first process that has only the announced key makes it the key in use, and
// the others follow. A guest (see Config.ExistingNames) sets no field.
func (keys nameKeys) choose(fields map[string]string, guest bool) (use *names, field, to string, err error) {
	used, next := fields[keyInUse], fields[keyNext]
	if len(keys) == 0 {
		if used != "" {
			err = fmt.Errorf("%w: names in Redis are hashed with the name key %s, and this process has none; "+
				"give it that key as store.name_key_file in the configuration (redisstore.Config.NameKeys), "+
				"or use another prefix or database", ErrNameKey, used)
		}
		return nil, "", "", err
	}
	current := keys[0].fingerprint
	use = keys[len(keys)-1]
	found := slices.IndexFunc(keys, func(n *names) bool { return n.fingerprint == used })
	if found >= 0 {
		use = keys[found]
	}
	switch {
	case found < 0 && used != "" && (guest || len(keys) > 1 || next != current):
		return nil, "", "", fmt.Errorf("%w: names in Redis are hashed with the name key %s, and this process has %s; "+
			"give it the former key, as store.previous_name_key_file if that is to be replaced (redisstore.Config.NameKeys)",
			ErrNameKey, used, keys)
	case use != keys[0] && next != current:
		return use, keyNext, current, nil
	case found < 0:
		return use, keyInUse, use.fingerprint, nil
	}
	return use, "", "", nil
}

func (keys nameKeys) String() string {
	var all []string
	for _, key := range keys {
		all = append(all, key.fingerprint)
	}
	return strings.Join(all, " and ")
}

// settleNames returns the key with which names in Redis are hashed, or nil if they are not hashed.
// First, it sets the fields in Redis that choose returns.
func (s *Store) settleNames(ctx context.Context) (*names, error) {
	for range 10 {
		fields, err := s.conn.Do(ctx, s.conn.B().Hgetall().Key(s.prefix+":names").Build()).AsStrMap()
		if err != nil {
			return nil, err
		}
		use, field, to, err := s.nameKeys.choose(fields, s.guest)
		if err != nil || field == "" || s.guest {
			return use, err
		}
		command := "HSET"
		if fields[field] == "" { // another process may set it first
			command = "HSETNX"
		}
		set := s.conn.B().Arbitrary(command).Keys(s.prefix+":names").Args(field, to).Build()
		if err := s.conn.Do(ctx, set).Error(); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the name keys in Redis keep changing")
}

const (
	// namesEvery is the interval at which a process checks which name key is in use. After the key
	// has been replaced, or Redis has lost its data, processes may count separately for that long.
	namesEvery = 2 * time.Second
	// namesTime is the maximum duration of one check.
	namesTime = time.Second
)

// watchNames checks the name key in Redis until the store is closed.
func (s *Store) watchNames(ctx context.Context) {
	for {
		select {
		case <-time.After(namesEvery):
		case <-ctx.Done():
			return
		}
		within, cancel := context.WithTimeout(ctx, namesTime)
		use, err := s.settleNames(within)
		cancel()
		switch {
		case errors.Is(err, ErrNameKey):
			if s.refused.Swap(&err) == nil {
				s.logger.Error("stint: no longer using Redis", "cause", err)
			}
		case err != nil: // Redis is unavailable, and calls report that
		default:
			if s.names.Swap(use) != use {
				s.logger.Warn("stint: names in Redis are now hashed with a different name key, and counts start over",
					"key", use.fingerprint)
			}
			if s.refused.Swap(nil) != nil {
				s.logger.Info("stint: using Redis again: the name key matches")
			}
		}
	}
}
