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

func (c *completionCommand) Run(s *system) error { return s.print([]byte(completionScripts[c.Shell])) }

// completeArg is the first argument when a completion script calls the program. The other arguments
// are the words after the program's name on the command line. The last word is the one to complete.
const completeArg = "__complete"

// completionScripts holds a script for each shell. To get completions, a script calls the program
// by the name that the user typed, because the program may not be in PATH. The scripts for zsh and
// fish complete file names if the completions include ":files". The script for bash completes file
// names if there are no completions.
var completionScripts = map[string]string{
	"bash": `# Completion of stint for bash: source <(stint completion bash)
_stint() {
	local IFS=$'\n'
	COMPREPLY=($("${1/#\~/$HOME}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" | cut -f 1 | grep -v '^:files'))
}
complete -o default -F _stint stint
`,
	"zsh": `#compdef stint
# Completion of stint for zsh: source <(stint completion zsh)
_stint() {
	local -a offers
	local line help files
	for line in "${(@f)$(${~words[1]} __complete "${(@)words[2,CURRENT]}")}"; do
		help=${line#*$'\t'}
		case $line in
		:files*) files=1 ;;
		?*) offers+=("${${line%%$'\t'*}//:/\\:}${help:+:$help}") ;;
		esac
	done
	[[ $PREFIX == --*=* ]] && compset -P 1 '*='
	(( $#offers )) && _describe stint offers
	[[ -n $files ]] && _files
}
if [[ $funcstack[1] == _stint ]]; then _stint "$@"; else compdef _stint stint; fi
`,
	"fish": `# Completion of stint for fish: stint completion fish > ~/.config/fish/completions/stint.fish
function __stint_offers
	set -l line (commandline -opc)
	set -l program (string replace -r '^~' $HOME $line[1])
	set -l typed (commandline -ct)
	set -l flag (string match -r -- '^--[^=]*=' "$typed")
	for offer in ($program __complete $line[2..] "$typed")
		if string match -q ':files*' -- $offer
			for file in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$typed"))
				echo "$flag$file"
			end
		else
			echo "$flag$offer"
		end
	end
end
complete -c stint -f -a '(__stint_offers)'
`,
}

// completions returns the completions of the last word, one per line. Each line has a word, a tab
// and the help for the word, if any. The line ":files" asks the script to complete file names.
func completions(n *kong.Node, words []string) []byte {
	words = joinAssignments(words)
	if len(words) == 0 {
		return nil
	}
	typed := words[len(words)-1]
	var flag *kong.Flag // the flag whose value comes next
	for _, word := range words[:len(words)-1] {
		switch {
		case flag != nil:
			flag = nil
		case strings.HasPrefix(word, "-"):
			if flag = flagOf(n, word); flag != nil && flag.IsBool() {
				flag = nil
			}
		default:
			if i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == word }); i >= 0 {
				n = n.Children[i]
			}
		}
	}
	name, value, assigned := strings.Cut(typed, "=")
	if assigned && strings.HasPrefix(typed, "--") {
		flag, typed = flagOf(n, name), value
	}
	var b bytes.Buffer
	offer := func(word, help string) {
		if strings.HasPrefix(word, typed) || word == ":files" {
			fmt.Fprintf(&b, "%s\t%s\n", word, help)
		}
	}
	switch {
	case flag != nil:
		for _, value := range enumOf(flag.Value) {
			offer(value, "")
		}
		if flag.PlaceHolder == "FILE" || flag.PlaceHolder == "DIR" {
			offer(":files", "")
		}
	case strings.HasPrefix(typed, "-"):
		for _, f := range slices.Concat(n.AllFlags(true)...) {
			offer("--"+f.Name, firstSentence(f.Help))
			if f.Tag.Negatable != "" {
				offer("--no-"+f.Name, "Not: "+firstSentence(f.Help))
			}
		}
	default:
		for _, child := range n.Children {
			if !child.Hidden {
				offer(child.Name, firstSentence(child.Help))
			}
		}
		for _, arg := range n.Positional {
			for _, value := range enumOf(arg) {
				offer(value, "")
			}
			if arg.Name == "path" || arg.Name == "log" {
				offer(":files", "")
			}
		}
	}
	return b.Bytes()
}

// joinAssignments joins "--flag", "=" and "value", because bash splits --flag=value into these
// words.
func joinAssignments(words []string) (joined []string) {
	for i, word := range words {
		last := len(joined) - 1
		if last >= 0 && strings.HasPrefix(joined[last], "--") && (word == "=" || words[i-1] == "=") {
			joined[last] += word
		} else {
			joined = append(joined, word)
		}
	}
	return joined
}

// flagOf returns the flag that a word such as --config or -n names, or nil.
func flagOf(n *kong.Node, word string) *kong.Flag {
	for _, f := range slices.Concat(n.AllFlags(true)...) {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

// enumOf returns the values that v accepts. They are in its tag "values" or, without that tag, in
// its enum.
func enumOf(v *kong.Value) []string {
	if values := v.Tag.Get("values"); values != "" {
		return strings.Split(values, ",")
	}
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// firstSentence returns the first sentence of help, up to a colon if it has one, as a single line.
func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	first, _, _ = strings.Cut(first, ": ")
	return strings.ReplaceAll(strings.TrimSuffix(first, "."), "\n", " ")
}
