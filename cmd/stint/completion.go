package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (*completionCommand) Help() string {
	return `How to install it:

    source <(stint completion bash)                                    # in ~/.bashrc
    source <(stint completion zsh)                                     # in ~/.zshrc, after compinit
    stint completion fish > ~/.config/fish/completions/stint.fish`
}

func (c *completionCommand) Run(s *system, k *kong.Context) error {
	var b bytes.Buffer
	points := pointsOf(k.Model.Node, "")
	switch c.Shell {
	case "bash":
		completeBash(&b, points)
	case "zsh":
		completeZsh(&b, points)
	case "fish":
		completeFish(&b, points)
	}
	return s.print(b.Bytes())
}

// completionPoint is a command in a command line, and what can follow it.
type completionPoint struct {
	// path holds the commands so far, each after a space: " config check".
	path string
	// words are subcommands, or the values of an argument that accepts only a few.
	words []completionWord
	flags []completionFlag
	files bool // an argument is a file name
}

type completionWord struct{ text, help string }

// completionFlag is a flag. A flag without a value is a switch.
type completionFlag struct {
	completionWord
	short  string // a letter, or ""
	value  bool
	values []string // all accepted values, if there are only a few
	file   bool     // the value is a file name
}

// pointsOf returns the points of a command and of all commands below it, its own first.
func pointsOf(n *kong.Node, path string) []completionPoint {
	at := completionPoint{path: path}
	var below []completionPoint
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		at.words = append(at.words, completionWord{child.Name, sentence(child.Help)})
		below = append(below, pointsOf(child, path+" "+child.Name)...)
	}
	for _, arg := range n.Positional {
		at.files = at.files || slices.Contains([]string{"path", "log"}, arg.Name)
		for _, value := range enumOf(arg) {
			at.words = append(at.words, completionWord{value, ""})
		}
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			at.flags = append(at.flags, flagsOf(f)...)
		}
	}
	return append([]completionPoint{at}, below...)
}

// flagsOf returns a flag and, if it can be negated, its opposite.
func flagsOf(f *kong.Flag) []completionFlag {
	flag := completionFlag{
		completionWord: completionWord{"--" + f.Name, sentence(f.Help)},
		value:          !f.IsBool(), values: enumOf(f.Value),
		file: slices.Contains([]string{"FILE", "DIR"}, f.PlaceHolder),
	}
	if f.Short != 0 {
		flag.short = string(f.Short)
	}
	all := []completionFlag{flag}
	if f.Tag.Negatable != "" {
		all = append(all, completionFlag{completionWord: completionWord{"--no-" + f.Name, "Not: " + flag.help}})
	}
	return all
}

// enumOf returns the accepted values of v, from the tag values or else from enum.
func enumOf(v *kong.Value) []string {
	if values := v.Tag.Get("values"); values != "" {
		return strings.Split(values, ",")
	}
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// sentence returns the first sentence of a help text, without characters that are special to
// shells.
func sentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	first, _, _ = strings.Cut(first, ": ")
	return strings.NewReplacer("'", "", "\n", " ", ":", "", "`", "", "$", "", `\`,
		"").Replace(strings.TrimSuffix(first, "."))
}

// pathCases writes a pattern that matches all paths, for scripts that find the command in a line.
func pathCases(points []completionPoint) string {
	var patterns []string
	for _, p := range points[1:] {
		patterns = append(patterns, fmt.Sprintf("%q", p.path))
	}
	return strings.Join(patterns, "|")
}
