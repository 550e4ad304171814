package contest

import "fmt"

type failure struct{ err error }

// Must returns a value or, if there is an error, ends the suite with the error. Like OK, it may be
// called only in the goroutine of a suite, or within [Catch].
func Must[T any](v T, err error) T {
	OK(err)
	return v
}

// OK ends the suite if there is an error.
func OK(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Failf ends the suite with an error.
func Failf(format string, args ...any) { OK(fmt.Errorf(format, args...)) }

// Catch calls a function and returns the error that ended it, if any.
func Catch(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}
