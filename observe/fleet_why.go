package observe

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/label"
)

// Each process records its own denials. To find denials of other processes, a process writes a
// question into the table that all processes share. The other processes answer when they write
// their next reports.

const (
	// A row whose name ends with askSuffix holds a question: "1f3c5a7b/ask" is a question of
	// process 1f3c5a7b. A row whose name contains whyPart holds an answer: "9d8e7f60/why/1f3c5a7b"
	// is the answer of process 9d8e7f60 to that question.
	askSuffix = "/ask"
	whyPart   = "/why/"
	// maxAnswer is the maximum number of denials in an answer. If there are more, the answer
	// contains the latest ones.
	maxAnswer = 10
	// askEvery is the interval at which the asking process looks for answers. askTime is the
	// longest time that it waits for them.
	askEvery = 250 * time.Millisecond
	askTime  = 10 * time.Second
)

// question asks for the denial with the id ID, or for the denials of Subject around the time At.
type question struct {
	Number  int64     `json:"number"`
	ID      string    `json:"id,omitempty"`
	Subject string    `json:"subject,omitempty"` // the name that the store uses
	At      time.Time `json:"at,omitzero"`
}

// asked is a question of another process. Its Number is 0 if the question is closed.
type asked struct {
	by string
	question
}

// reply is the answer of a process to the question with the same number.
type reply struct {
	Number  int64    `json:"number"`
	Denials []Denial `json:"denials"`
}

// asking holds the open question of this process; there is at most one.
type asking struct {
	sync.Mutex // held while a question is open

	wake chan struct{} // wakes the reporting goroutine
	// The fleet's mutex guards the following fields.
	open    *question
	number  int64
	written int64               // the number of this process's question in the table; 0 if there is none
	answers map[string][]Denial // by process
}

// ask returns the denials that other processes have found for a question. It waits until all
// processes that are not silent have answered. If the question is about an id, one process that has
// found the denial is enough. ask waits for at most two reports of each process, and no longer than
// askTime.
func (f *fleet) ask(ctx context.Context, q question) (found []Denial) {
	f.asking.Lock()
	defer f.asking.Unlock()
	f.mu.Lock()
	ctx, cancel := context.WithTimeout(ctx, min(2*f.pace()+reportTime, askTime))
	defer cancel()
	f.asking.number++
	q.Number = f.asking.number
	f.asking.open, f.asking.answers = &q, map[string][]Denial{}
	f.mu.Unlock()
	f.hurry()
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-time.After(askEvery):
			done = f.answered(q.ID != "")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking.open = nil
	for _, list := range f.asking.answers {
		for _, d := range list {
			found = append(found, f.shown(d))
		}
	}
	return found
}

// hurry makes the next report start at once.
func (f *fleet) hurry() {
	select {
	case f.asking.wake <- struct{}{}:
	default:
	}
}

// answered reports whether all processes that are not silent have answered. If the argument one is
// true, a single answer that contains denials is enough.
func (f *fleet) answered(one bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := true
	for id, p := range f.peers {
		list, ok := f.asking.answers[id]
		if one && len(list) > 0 {
			return true
		}
		all = all && (ok || f.isSilent(p))
	}
	return all
}

// shown converts a denial of another process for display.
func (f *fleet) shown(d Denial) Denial {
	d.Subject, d.Ref = f.m.names.label(d.Subject), f.m.names.ref(d.Subject)
	for _, text := range []*string{&d.ID, &d.Tier, &d.Policy, &d.Route, &d.Limit, &d.Reason, &d.Instance} {
		*text = label.Line(*text)
	}
	return d
}

// askRows returns a row that adds the open question of this process to the table, or removes a
// closed one. It returns nil if the table is up to date.
func (f *fleet) askRows() []driver.Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch q := f.asking.open; {
	case q != nil && q.Number != f.asking.written:
		text, _ := json.Marshal(q) // never fails
		f.asking.written = q.Number
		return []driver.Row{{Name: f.id + askSuffix, Text: string(text)}}
	case q == nil && f.asking.written != 0:
		f.asking.written = 0
		return []driver.Row{{Name: f.id + askSuffix}}
	}
	return nil
}

// take handles a row with a question or an answer. If the row is a question of another process, it
// returns the question. The caller holds the lock.
func (f *fleet) take(r driver.Row) (q asked, ok bool) {
	if by, ok := strings.CutSuffix(r.Name, askSuffix); ok && by != f.id {
		q.by = by
		return q, r.Text == "" || json.Unmarshal([]byte(r.Text), &q.question) == nil
	}
	from, to, ok := strings.Cut(r.Name, whyPart)
	if !ok || to != f.id || f.asking.open == nil || r.Text == "" || len(r.Text) > maxRecord {
		return q, false
	}
	var got reply
	if json.Unmarshal([]byte(r.Text), &got) == nil && got.Number == f.asking.open.Number {
		f.asking.answers[from] = got.Denials[:min(len(got.Denials), maxAnswer)]
	}
	return q, false
}

// reply answers the questions of other processes. It also removes the answers to closed questions.
func (f *fleet) reply(ctx context.Context, questions []asked) {
	var rows []driver.Row
	for _, q := range questions {
		row := driver.Row{Name: f.id + whyPart + q.by}
		if q.Number != 0 {
			text, _ := json.Marshal(reply{q.Number, f.answer(&q.question)}) // never fails
			row.Text = string(text)
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		_, _ = f.store.Keep(ctx, fleetTable, rows, f.version, false) // on failure, the asking process times out
	}
}

// answer returns the last denials of this process that match a question. Their subjects have the
// names that the store uses.
func (f *fleet) answer(q *question) []Denial {
	list := f.m.why(q.ID)
	if q.Subject != "" {
		list = nil
		for _, subject := range f.m.denials.subjects() {
			if f.named(subject) == q.Subject {
				list = f.m.denialsOf(subject, q.At)
				break
			}
		}
	}
	list = list[max(0, len(list)-maxAnswer):]
	for i := range list {
		subject, _ := f.m.names.subject(list[i].Ref)
		list[i].Subject, list[i].Ref = f.named(subject), ""
	}
	return list
}
