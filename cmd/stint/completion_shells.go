package main

import (
	"bytes"
	"fmt"
	"strings"
)

// completeBash writes a script for bash. Where the script has no suggestion, bash completes file
// names.
func completeBash(b *bytes.Buffer, points []completionPoint) {
	fmt.Fprintf(b, `# Completion of stint for bash: source <(stint completion bash)
_stint() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$at ${COMP_WORDS[i]}" in
		%s) at="$at ${COMP_WORDS[i]}" ;;
		esac
	done
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	COMPREPLY=()
	case "$at $prev" in
`, pathCases(points))
	eachValue(points, func(at string, f *completionFlag) {
		fmt.Fprintf(b, "\t%s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", f.pattern(at),
			strings.Join(f.values, " "))
	})
	b.WriteString("\tesac\n\tcase \"$at\" in\n")
	for _, p := range points {
		fmt.Fprintf(b, "\t%q) COMPREPLY=($(compgen -W %q -- \"$cur\")) ;;\n", p.path, strings.Join(p.all(), " "))
	}
	b.WriteString("\tesac\n}\ncomplete -o default -F _stint stint\n")
}

func completeZsh(b *bytes.Buffer, points []completionPoint) {
	fmt.Fprintf(b, `#compdef stint
# Completion of stint for zsh: source <(stint completion zsh)
_stint() {
	local at= prev=$words[CURRENT-1] i
	local -a list
	for ((i = 2; i < CURRENT; i++)); do
		case "$at $words[i]" in
		(%s) at="$at $words[i]" ;;
		esac
	done
	if [[ $PREFIX == --*=* ]]; then
		prev=${PREFIX%%%%=*}
		compset -P 1 '*='
	fi
	case "$at $prev" in
`, pathCases(points))
	eachValue(points, func(at string, f *completionFlag) {
		what := "compadd -- " + strings.Join(f.values, " ")
		switch {
		case f.file:
			what = "_files"
		case len(f.values) == 0:
			what = "_message value"
		}
		fmt.Fprintf(b, "\t(%s) %s; return ;;\n", f.pattern(at), what)
	})
	b.WriteString("\tesac\n\tcase \"$at\" in\n")
	for _, p := range points {
		fmt.Fprintf(b, "\t(%q) list=(", p.path)
		for _, w := range p.words {
			fmt.Fprintf(b, " '%s:%s'", w.text, w.help)
		}
		for _, f := range p.flags {
			fmt.Fprintf(b, " '%s:%s'", f.text, f.help)
		}
		b.WriteString(" )")
		if p.files {
			b.WriteString("; [[ $PREFIX == -* ]] || _files")
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("\tesac\n\t_describe stint list\n}\n" +
		"if [[ $funcstack[1] == _stint ]]; then _stint \"$@\"; else compdef _stint stint; fi\n")
}

func completeFish(b *bytes.Buffer, points []completionPoint) {
	b.WriteString("# Completion of stint for fish: stint completion fish > ~/.config/fish/completions/stint.fish\n" +
		"function __stint_at\n\tset -l at ''\n\tfor word in (commandline -opc)[2..]\n\t\tswitch \"$at $word\"\n\t\t\tcase")
	for _, p := range points[1:] {
		fmt.Fprintf(b, " '%s'", p.path)
	}
	b.WriteString("\n\t\t\t\tset at \"$at $word\"\n\t\tend\n\tend\n\ttest \"$at\" = \"$argv[1]\"\nend\ncomplete -c stint -f\n")
	for _, p := range points {
		where := fmt.Sprintf("complete -c stint -n '__stint_at \"%s\"'", p.path)
		if p.files {
			fmt.Fprintf(b, "%s -F\n", where)
		}
		for _, w := range p.words {
			fmt.Fprintf(b, "%s -a %s -d '%s'\n", where, w.text, w.help)
		}
		for _, f := range p.flags {
			fmt.Fprintf(b, "%s -l %s%s -d '%s'\n", where, strings.TrimPrefix(f.text, "--"), f.fish(), f.help)
		}
	}
}

// fish returns the options that describe the value of a flag to fish.
func (f *completionFlag) fish() string {
	text := ""
	if f.short != "" {
		text = " -s " + f.short
	}
	switch {
	case len(f.values) > 0:
		return text + fmt.Sprintf(" -x -a '%s'", strings.Join(f.values, " "))
	case f.file:
		return text + " -r -F"
	case f.value:
		return text + " -x"
	}
	return text
}

// pattern returns a pattern for bash and zsh that matches a point and the flag after it.
func (f *completionFlag) pattern(at string) string {
	text := fmt.Sprintf("%q", at+" "+f.text)
	if f.short != "" {
		text += fmt.Sprintf("|%q", at+" -"+f.short)
	}
	return text
}

func (p *completionPoint) all() []string {
	var list []string
	for _, w := range p.words {
		list = append(list, w.text)
	}
	for _, f := range p.flags {
		list = append(list, f.text)
	}
	return list
}

func eachValue(points []completionPoint, do func(at string, f *completionFlag)) {
	for _, p := range points {
		for i := range p.flags {
			if f := &p.flags[i]; f.value {
				do(p.path, f)
			}
		}
	}
}
