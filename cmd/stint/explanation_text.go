package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/policy"
)

func (e *explanation) text() []byte {
	var b bytes.Buffer
	e.head(&b)
	if e.verdict != nil {
		e.considered(&b, "tiers", e.Tiers)
		e.considered(&b, "policies", e.Policies)
		e.counts(&b)
		e.numbers(&b)
		e.foot(&b)
	}
	return b.Bytes()
}

// columns calls write with a function that adds a line of cells, and then writes the lines to b
// with the cells aligned in columns.
func columns(b *bytes.Buffer, write func(line func(cells ...string))) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	write(func(cells ...string) {
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	})
	_ = w.Flush() // writes to memory, which cannot fail
}

func (e *explanation) head(b *bytes.Buffer) {
	columns(b, func(line func(...string)) {
		line("request", e.Method+" "+e.Path)
		for i, reading := range e.Also {
			if i == 0 {
				reading += " (limits match any reading, exemptions only all of them)"
			}
			line("or", reading)
		}
		if e.Host != "" {
			line("host", e.Host)
		}
		if e.PeerAssumed {
			line("peer", e.Peer+" (assumed; use --peer for another)")
		} else {
			line("peer", e.Peer)
		}
		line("client", e.Client)
		if e.verdict == nil {
			line("skipped", "by the policy "+e.Skipped+": it is neither counted nor limited")
			return
		}
		line("tier", e.Tier)
		line("route", orNone(e.Route))
		line("cost", strconv.FormatInt(e.Cost, 10))
	})
}

func (e *explanation) considered(b *bytes.Buffer, title string, all []policy.Considered) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	columns(b, func(line func(...string)) {
		for _, c := range all {
			applies := "  no"
			if c.Applies {
				applies = "  yes"
			}
			line(applies, c.Name, c.Why)
		}
	})
}

func (e *explanation) counts(b *bytes.Buffer) {
	if len(e.Counts) == 0 {
		b.WriteString("\ncharged to no one: no limit applies\n")
		return
	}
	b.WriteString("\ncharged to\n")
	columns(b, func(line func(...string)) {
		for _, c := range e.Counts {
			line("  "+c.Key, c.amount(), c.origin(), label.List(c.Limits))
		}
	})
	for _, c := range e.Counts {
		if c.Override != nil {
			fmt.Fprintf(b, "  %s: an override instead of %s, %s\n", oneLine(c.Key), label.List(c.Configured),
				oneLine(overrideText(c.Override)))
		}
	}
}

func (e *explanation) numbers(b *bytes.Buffer) {
	if len(e.Numbers) == 0 {
		return
	}
	b.WriteString("\nlimits by claim\n")
	columns(b, func(line func(...string)) {
		for _, n := range e.Numbers {
			line("  "+n.Limit.String(), n.Rule, n.Why)
		}
	})
}

func (c *charge) amount() string {
	if c.Costs {
		amounts := []string{"cost " + strconv.FormatInt(c.Units, 10)}
		for _, name := range slices.Sorted(maps.Keys(c.ByName)) {
			amounts = append(amounts, name+" "+strconv.FormatInt(c.ByName[name], 10))
		}
		return strings.Join(amounts, ", ")
	}
	return count(int(c.Units), "request", "requests")
}

func (c *charge) origin() string {
	origin := "tier " + c.Tier
	if c.Policy != "" {
		origin = "policy " + c.Policy
	}
	if c.Shadow {
		origin += ", in shadow: not enforced"
	}
	return origin
}

func (e *explanation) foot(b *bytes.Buffer) {
	b.WriteByte('\n')
	columns(b, func(line func(...string)) {
		line("request id", e.RequestID.String())
		line("bans", e.Bans.String())
		line("store fails", e.Failure.String())
		line("breaker", e.Failure.Breaker.String())
		if e.Hold > 0 {
			line("held", "costs are estimates, held for "+figures.Length(time.Duration(e.Hold))+
				" unless renewed")
		}
		line("afterwards", orNone(e.After))
	})
}

func (r requestID) String() string {
	derived := fmt.Sprintf("an identical request within %s is not charged again, if its body can be read", r.Derive)
	switch {
	case r.Header == "" && r.Derive != 0:
		return "derived: " + derived
	case r.Header == "":
		return "none"
	case !r.Named && r.Derive != 0:
		return r.Header + " is missing: " + derived
	case r.Named:
		return r.Header + " is present: a repeat is not charged again"
	}
	return r.Header + " is missing: a repeat is charged again"
}

func (f failure) String() string {
	becomes := map[string]string{
		"local": "the same limits in memory, divided among the instances",
		"allow": "it is allowed",
		"deny":  "it is denied",
		"error": "the caller gets the error",
	}
	return fmt.Sprintf("%s, after %s: %s", f.Mode, f.Budget, becomes[f.Mode])
}

func (b breaker) String() string {
	return fmt.Sprintf("opens after %s in a row, pings every %s, without pings tries again after %s",
		count(b.Failures, "failure", "failures"), b.Probe, b.Retry)
}

func (b *bans) String() string {
	switch {
	case b == nil:
		return "none"
	case b.After == 0:
		return "only manual bans"
	}
	texts := make([]string, len(b.Durations))
	for i, d := range b.Durations {
		texts[i] = d.String()
	}
	return fmt.Sprintf("after %s within %s, for %s; forgiven after %s",
		count(b.After, "denial", "denials"), b.Within, strings.Join(texts, ", then "), b.Forgive)
}

// String returns the shortest exact form: "1h", not "1h0m0s".
func (d duration) String() string { return figures.Exact(time.Duration(d)) }

func (d duration) MarshalJSON() ([]byte, error) {
	return []byte(figures.Seconds(time.Duration(d))), nil
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// oneLine returns text, quoted if it has characters that would break the line or move the cursor.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return text
	}
	return strconv.Quote(text)
}
