package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutation replaces a few bytes of one file.
type mutation struct {
	file     string // relative to the root of the module
	from, to int    // offsets
	text     string // the replacement
	line     int    // line number of from, starting at 1
	what     string // a description of the change, such as "< → <="
	source   string // the original line
}

func (m mutation) String() string {
	return fmt.Sprintf("%s:%d: %s | %s", m.file, m.line, m.what, m.source)
}

// apply returns the file with the mutation.
func (m mutation) apply(source []byte) []byte {
	return slices.Concat(source[:m.from], []byte(m.text), source[m.to:])
}

// mutator collects the mutations of one file.
type mutator struct {
	file   string
	source []byte
	found  []mutation
}

// replace adds a mutation that replaces source[from:to] with text.
func (m *mutator) replace(from, to int, text, what string) {
	start := bytes.LastIndexByte(m.source[:from], '\n') + 1
	line, _, _ := bytes.Cut(m.source[start:], []byte("\n"))
	m.found = append(m.found, mutation{m.file, from, to, text, 1 + bytes.Count(m.source[:from], []byte("\n")), what,
		strings.TrimSpace(string(line))})
}

// swap adds a mutation that replaces a token with another.
func (m *mutator) swap(from int, token, other string) {
	m.replace(from, from+len(token), other, token+" → "+other)
}

// mutations returns all mutations of the target's files, in an order that depends only on the seed.
func (t target) mutations(root string, seed uint64) ([]mutation, error) {
	var files []string
	for _, pattern := range t.files {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, matches...)
	}
	var all []mutation
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		name = filepath.ToSlash(name)
		if strings.HasSuffix(name, "_test.go") || slices.Contains(t.except, name) {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m := &mutator{file: name, source: source}
		if strings.HasSuffix(name, ".lua") {
			m.lua()
		} else if err := m.golang(); err != nil {
			return nil, err
		}
		all = append(all, m.found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: nothing to change in %s", t.name, strings.Join(t.files, ", "))
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}
