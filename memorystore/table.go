package memorystore

import (
	"context"
	"maps"
	"sync"

	"github.com/stint-limiter/stint/driver"
)

var _ driver.Keeper = (*Store)(nil)

type tables struct {
	mu     sync.Mutex
	byName map[string]*table
}

type table struct {
	version int64
	rows    map[string]tableRow
	// removed is the number of rows that have been removed but are still in the map. purged is the
	// version of the table when it last dropped such rows.
	removed int
	purged  int64
}

// maxRemoved is the maximum number of removed rows that a table remembers.
const maxRemoved = 10_000

// tableRow is the text of a row, and the version of the table at which it was written. A removed
// row stays, with an empty text.
type tableRow struct {
	text    string
	version int64
}

// Keep implements [driver.Keeper].
func (s *Store) Keep(_ context.Context, name string, rows []driver.Row, seen int64, missing bool) (int64, error) {
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	t := s.tables.byName[name]
	if t == nil {
		t = &table{rows: map[string]tableRow{}}
		s.tables.byName[name] = t
	}
	t.version++
	for _, r := range rows {
		before, known := t.rows[r.Name]
		if missing && before.text != "" {
			continue
		}
		if known && before.text == "" {
			t.removed--
		}
		if r.Text == "" {
			t.removed++
		}
		t.rows[r.Name] = tableRow{r.Text, t.version}
	}
	if t.removed > maxRemoved {
		maps.DeleteFunc(t.rows, func(_ string, r tableRow) bool { return r.text == "" })
		t.removed, t.purged = 0, t.version
	}
	if seen != t.version-1 {
		return seen, nil
	}
	return t.version, nil
}

// Kept implements [driver.Keeper].
func (s *Store) Kept(_ context.Context, name string, since int64, f func(driver.Row)) (int64, driver.Rows, error) {
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	t := s.tables.byName[name]
	if t == nil {
		return 0, driver.RowsAll, nil
	}
	if since == t.version {
		return since, driver.RowsChanged, nil
	}
	which := driver.RowsChanged
	if since == 0 || since < t.purged {
		since, which = 0, driver.RowsAll
	}
	for name, r := range t.rows {
		if r.version > since && (r.text != "" || which == driver.RowsChanged) {
			f(driver.Row{Name: name, Text: r.text})
		}
	}
	return t.version, which, nil
}

// StoredName implements [driver.Keeper]: this store keeps names unchanged.
func (s *Store) StoredName(subject string) string { return subject }
