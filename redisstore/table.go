package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"

	"github.com/stint-limiter/stint/driver"
)

var _ driver.Keeper = (*Store)(nil)

const (
	// tableRows is the maximum number of rows of a table that one call writes. tablePage is the
	// approximate number of rows that one call reads.
	tableRows = 1000
	tablePage = 5000
	// tableRandom is the exclusive upper bound of the random numbers in versions. See
	// lua/table.lua.
	tableRandom = 1 << 32
)

// tableKeys returns the keys of a table, which are in one slot.
func (s *Store) tableKeys(table string) []string {
	key := s.prefix + ":table:{" + table + "}"
	return []string{key, key + ":changes"}
}

// Keep implements [driver.Keeper].
func (s *Store) Keep(ctx context.Context, table string, rows []driver.Row, seen int64,
	missing bool) (version int64, err error) {
	if err := s.await(ctx, "keep"); err != nil {
		return 0, err
	}
	if _, err := s.newCall(tableScript, 0); err != nil {
		return 0, s.wrap("keep", err)
	}
	verb, version := "write", seen
	if missing {
		verb = "restore"
	}
	random := strconv.FormatInt(rand.Int64N(tableRandom), 10)
	for first := true; first || len(rows) > 0; first = false {
		n := min(len(rows), tableRows)
		args := append(make([]string, 0, 3+2*n), verb, strconv.FormatInt(version, 10), random)
		for _, r := range rows[:n] {
			args = append(args, r.Name, r.Text)
		}
		rows = rows[n:]
		reply, err := tableScript.do(ctx, &s.conn, s.tableKeys(table), args).AsStrSlice()
		if err == nil {
			version, err = tableVersion(reply)
		}
		if err != nil {
			return 0, s.wrap("keep", err)
		}
	}
	return version, nil
}

// Kept implements [driver.Keeper].
func (s *Store) Kept(ctx context.Context, table string, since int64, f func(driver.Row)) (version int64,
	which driver.Rows, err error) {
	if err := s.await(ctx, "kept"); err != nil {
		return 0, 0, err
	}
	if _, err := s.newCall(tableScript, 0); err != nil {
		return 0, 0, s.wrap("kept", err)
	}
	version, which, changed, err := s.readChanges(ctx, table, since)
	if err == nil && which == driver.RowsChanged {
		for i := 0; i+1 < len(changed); i += 2 {
			f(driver.Row{Name: changed[i], Text: changed[i+1]})
		}
	}
	if err == nil && which != driver.RowsChanged && version > 0 {
		err = s.readTable(ctx, table, version, f)
	}
	return version, which, s.wrap("kept", err)
}

// readChanges returns the version of a table, and which rows a reader of an earlier version must
// read. For RowsChanged, changed holds, in turn, the name and the text of each of these rows.
func (s *Store) readChanges(ctx context.Context, table string, since int64) (version int64, which driver.Rows,
	changed []string, err error) {
	args := []string{"read", strconv.FormatInt(since, 10)}
	reply, err := tableScript.do(ctx, &s.conn, s.tableKeys(table), args).AsStrSlice()
	if err == nil {
		version, err = tableVersion(reply)
	}
	if err != nil {
		return 0, 0, nil, err
	}
	if changed = reply[1:]; len(changed) == 1 {
		which = map[string]driver.Rows{"whole": driver.RowsAll, "lost": driver.RowsLeft}[changed[0]]
	}
	return version, which, changed, nil
}

// readTable calls f with all rows of a table. Rows written after the given version may be missing.
// It returns an error if the table is lost while it is being read.
func (s *Store) readTable(ctx context.Context, table string, version int64, f func(driver.Row)) error {
	key := s.tableKeys(table)[0]
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		page, err := s.conn.Do(ctx, s.conn.B().Hscan().Key(key).Cursor(cursor).Count(tablePage).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(page.Elements); i += 2 {
			if page.Elements[i] != "" {
				f(driver.Row{Name: page.Elements[i], Text: page.Elements[i+1]})
			}
		}
		cursor = page.Cursor
	}
	_, which, _, err := s.readChanges(ctx, table, version)
	if err == nil && which == driver.RowsLeft {
		err = errors.New("the table was lost while it was read")
	}
	return err
}

// tableVersion returns the version at the beginning of a reply.
func tableVersion(reply []string) (int64, error) {
	if len(reply) == 0 {
		return 0, badReply("no version")
	}
	version, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return 0, badReply("no version")
	}
	return version, nil
}

// StoredName implements [driver.Keeper]. It returns "" if names are hashed and the store has not
// been connected yet, because it does not know the name key in use.
func (s *Store) StoredName(subject string) string {
	if names := s.names.Load(); names != nil {
		return string(names.appendSubject(nil, subject))
	}
	if len(s.nameKeys) > 0 {
		return ""
	}
	return subject
}
