// Package storeoptions turns the store section of a configuration into the settings of a store, for
// the server and for commands that open the store themselves.
package storeoptions

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/redisstore"
)

// Redis returns the settings of a store over Redis. It reads the files with name keys, and warns
// about those that everyone on the machine can read.
func Redis(where config.Store, logger *slog.Logger) (redisstore.Config, error) {
	c := redisstore.Config{URL: where.URL, Prefix: where.Prefix, Logger: logger}
	if where.NameKeyFile == "" {
		return c, nil
	}
	current, err := readNameKey(where.NameKeyFile, logger)
	if err != nil {
		return c, fmt.Errorf("store.name_key_file: %w", err)
	}
	c.NameKeys = [][]byte{current}
	if where.PreviousNameKeyFile == "" {
		return c, nil
	}
	previous, err := readNameKey(where.PreviousNameKeyFile, logger)
	if err != nil {
		return c, fmt.Errorf("store.previous_name_key_file: %w", err)
	}
	c.NameKeys = append(c.NameKeys, previous)
	return c, nil
}

// readNameKey returns the text of a file without white space around it.
func readNameKey(path string, logger *slog.Logger) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	callers.WarnReadable(logger, "name key", path)
	return bytes.TrimSpace(text), nil
}
