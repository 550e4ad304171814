package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/server/control"
)

// exitError is an error with an exit code of its own.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *exitError) Unwrap() error { return e.Err }

// wrongUse is a mistake of whoever asked, for which the help of the command is of no use.
func wrongUse(err error) error { return &exitError{exitUsage, err} }

// problem returns an error of a desk as [serverFlags.problem] does, but for those of tokens.
func problem(err error) error {
	var (
		unreachable *control.UnreachableError
		refused     *control.RefusedError
		unknown     *control.UnknownError
		invalid     *stint.InvalidError
		store       *stint.StoreError
	)
	switch {
	case errors.As(err, &unreachable):
		if errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("no stint at %s; start \"stint serve\", or name it with --server", unreachable.Server)
		}
		return &exitError{exitUnreachable, err}
	case errors.As(err, &refused):
		return refusal(refused)
	case errors.As(err, &unknown) && len(unknown.Kinds) == 0:
		return wrongUse(fmt.Errorf("which limits %q is under is not known; name the policies with --config, or a limit with --limit; "+
			"with --raw, ban and unban take any subject as it is", unknown.Subject))
	case errors.As(err, &unknown):
		return wrongUse(withoutPackage(err))
	case errors.As(err, &invalid):
		return wrongUse(invalid.Err)
	case errors.As(err, &store):
		err = fmt.Errorf("the store: %w", store.Err)
		if store.Kind == stint.KindAuth {
			err = fmt.Errorf("%w; %s", err, askDoctor)
		}
		return &exitError{exitUnreachable, err}
	}
	return err
}

// withoutPackage returns an error of package control for those who do not know that there is one.
func withoutPackage(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "control: ")) }

// refusal is an answer of a server that is not the one that was asked for.
func refusal(e *control.RefusedError) error {
	e = &control.RefusedError{Status: e.Status, Code: e.Code, Message: oneLine(e.Message)}
	switch {
	case e.Message == "", e.Code == control.NoSuchPlace, e.Status == http.StatusTooManyRequests, e.Status == http.StatusBadGateway: // another listener, or what is behind it
		return &exitError{exitUnreachable, fmt.Errorf("the server answers %d %s; is that the admin listener of a stint? name it with --server",
			e.Status, http.StatusText(e.Status))}
	case e.Status == http.StatusBadRequest, e.Status == http.StatusNotFound:
		return wrongUse(e)
	}
	return &exitError{exitUnreachable, e}
}
