package driver

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Keeper is a [stint.Store] that keeps tables of texts for all processes that share it, beside what
// it counts: package overrides keeps exceptions from limits there. A table has up to a million rows
// that rarely change. All stores of this module are Keepers; one that wraps a store which is none
// fails with [errors.ErrUnsupported].
//
// A table has a version, which changes with every change. A table that is not there has the version
// 0: it was never written, or the store has lost its memory.
type Keeper interface {
	stint.Store
	// Keep writes rows, and removes those whose text is "". Seen is the version that the caller
	// knows. Keep returns the new version if that was the one before, so that the caller now knows
	// all rows, and else seen. With missing only those rows are written that the table does not
	// have: to put back what was lost.
	Keep(ctx context.Context, table string, rows []Row, seen int64, missing bool) (version int64, err error)
	// Kept calls f with the rows that have changed since a version, and returns the version now.
	// The text of a row that was removed is "". Where it cannot tell what has changed, it calls f
	// with all rows.
	Kept(ctx context.Context, table string, since int64, f func(Row)) (version int64, which Rows, err error)
	// StoredName is what the store calls a subject: a hash if its keys hold no names, and "" if it
	// has to be connected first to know that.
	StoredName(subject string) string
}

// Row is a text in a table, by its name, which is not empty and does not begin with a zero byte.
type Row struct{ Name, Text string }

// Rows says which rows of a table [Keeper.Kept] has returned.
type Rows uint8

const (
	// RowsChanged are those that have changed since the version.
	RowsChanged Rows = iota
	// RowsAll are all rows: there was no version, or too much has changed.
	RowsAll
	// RowsLeft are all rows of a table that has not had the version: it was lost, or an older copy
	// took its place. Rows may be missing that the caller knows.
	RowsLeft
)
