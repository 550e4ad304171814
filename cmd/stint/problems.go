package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/server/control"
)

// exitError is an error with an exit code of its own.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *exitError) Unwrap() error { return e.Err }

// usageMistake is a mistake of the caller that the help of the command does not explain.
func usageMistake(err error) error { return &exitError{exitUsage, err} }

// problem returns an error of an admin as [serverFlags.problem] does, except those about tokens.
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
		return usageMistake(fmt.Errorf("the limits of %q are unknown; name the policies with --config, or a limit with --limit; "+
			"with --raw, ban and unban take any subject literally", unknown.Subject))
	case errors.As(err, &unknown):
		return usageMistake(withoutPackage(err))
	case errors.As(err, &invalid):
		return usageMistake(invalid.Err)
	case errors.As(err, &store):
		err = fmt.Errorf("the store: %w", store.Err)
		if store.Kind == errkind.Auth {
			err = fmt.Errorf("%w; %s", err, doctorHint)
		}
		return &exitError{exitUnreachable, err}
	}
	return err
}

// withoutPackage returns an error of package control without the package's name.
func withoutPackage(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "control: ")) }

// refusal is an answer with another status than 200.
func refusal(e *control.RefusedError) error {
	e = &control.RefusedError{Status: e.Status, Code: e.Code, Message: oneLine(e.Message)}
	switch {
	case e.Message == "", e.Code == control.CodeNotFound, e.Status == http.StatusTooManyRequests,
		e.Status == http.StatusBadGateway:
		// another listener, or what is behind it
		return &exitError{exitUnreachable, fmt.Errorf("the server answers %d %s; is that the admin listener of a stint? name it with --server",
			e.Status, http.StatusText(e.Status))}
	case e.Status == http.StatusBadRequest, e.Status == http.StatusNotFound:
		return usageMistake(e)
	}
	return &exitError{exitUnreachable, e}
}
