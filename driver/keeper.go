package driver

import (
	"context"

	"github.com/stint-limiter/stint"
)

// Keeper is a [stint.Store] that keeps not only counts but also tables of text, for all processes
// that share it: package overrides keeps exceptions to limits there. A table has up to a million
// rows that rarely change. All stores in this module are Keepers. If a store wraps another store
// that lacks these methods, its methods return [errors.ErrUnsupported].
//
// A table has a version, which changes with every change. A table that does not exist has version
// 0: it was never written, or the store has lost its data.
type Keeper interface {
	stint.Store
	// Keep writes rows, and removes rows whose text is "". seen is the last version that the caller
	// knows. If it was still current before the call, Keep returns the new version. Otherwise, the
	// caller has missed other changes, and Keep returns seen. If missing is true, Keep writes only
	// the rows that the table does not have; this restores lost rows.
	Keep(ctx context.Context, table string, rows []Row, seen int64, missing bool) (version int64, err error)
	// Kept calls f with each row that has changed since the given version, and returns the current
	// version. The text of a removed row is "". If the store cannot tell what has changed, Kept
	// calls f with every row; the returned [Rows] distinguishes the two cases.
	Kept(ctx context.Context, table string, since int64, f func(Row)) (version int64, which Rows, err error)
	// StoredName returns the name under which the store keeps a subject: the subject itself, or its
	// hash if the store does not keep names. It returns "" as long as the store is not connected
	// and so does not know the name.
	StoredName(subject string) string
}

// Row is a row of a table: a name and its text. The name is not empty and does not begin with a
// zero byte.
type Row struct{ Name, Text string }

// Rows specifies which rows of a table [Keeper.Kept] has passed to f.
type Rows uint8

const (
	// RowsChanged stands for the rows that have changed since the given version.
	RowsChanged Rows = iota
	// RowsAll stands for all rows, because the given version was 0 or because the store no longer
	// remembers every change since that version.
	RowsAll
	// RowsLeft stands for all rows of a table that has never had the given version: the table was
	// lost, or replaced by an older copy. It may lack rows that the caller knows.
	RowsLeft
)
