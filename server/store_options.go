package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"

	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
)

// StoreOptions returns the options of a Redis that a configuration asks for. It reads the files with name keys, and
// warns of those that everybody on the machine can read.
func StoreOptions(where policy.Store, logger *slog.Logger) ([]redisstore.Option, error) {
	options := []redisstore.Option{redisstore.WithLogger(logger)}
	if where.Prefix != "" {
		options = append(options, redisstore.WithPrefix(where.Prefix))
	}
	if where.NameKeyFile == "" {
		return options, nil
	}
	current, err := readNameKey(where.NameKeyFile, logger)
	if err != nil {
		return nil, fmt.Errorf("store.name_key_file: %w", err)
	}
	if where.PreviousNameKeyFile == "" {
		return append(options, redisstore.WithNameKey(current)), nil
	}
	previous, err := readNameKey(where.PreviousNameKeyFile, logger)
	if err != nil {
		return nil, fmt.Errorf("store.previous_name_key_file: %w", err)
	}
	return append(options, redisstore.WithNameKey(current, previous)), nil
}

// readNameKey returns the text of a file without white space around it.
func readNameKey(path string, logger *slog.Logger) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	warnReadable(logger, "name key", path)
	return bytes.TrimSpace(text), nil
}
