package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/server/control"
)

type exitError struct {
	Code int
	Err  error
	// Help is printed before the error: the usage of the command, or the list of commands.
	Help string
}

func (e *exitError) Error() string { return e.Err.Error() }

func (e *exitError) Unwrap() error { return e.Err }

// usageMistake returns an error that makes stint exit with exitUsage without printing the command's
// help, because the help would not explain the mistake.
func usageMistake(err error) error { return &exitError{Code: exitUsage, Err: err} }

func unreachable(err error) error { return &exitError{Code: exitUnreachable, Err: err} }

// problem adds advice and an exit code to an error from a command that uses a server or a store.
func (f *serverFlags) problem(err error) error {
	var (
		silent  *control.UnreachableError
		refused *control.RefusedError
		unknown *control.UnknownError
		invalid *stint.InvalidError
		store   *stint.StoreError
	)
	switch {
	case errors.As(err, &silent):
		if what, flags := f.tlsProblem(err); what != "" {
			err = fmt.Errorf("%s; try %s", what, flags)
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("no stint server at %s; start \"stint serve\", or specify another server with --server", silent.Server)
		}
		return unreachable(err)
	case errors.As(err, &refused) && refused.Status == http.StatusUnauthorized:
		return unreachable(fmt.Errorf("the server requires a valid token: %s; pass one with --token-file or in STINT_TOKEN",
			f.tried))
	case errors.As(err, &refused):
		return refusal(refused)
	case errors.As(err, &unknown) && len(unknown.Kinds) == 0:
		return usageMistake(fmt.Errorf("the limits of %q are unknown; specify the policies with --config, or a limit with --limit; "+
			"with --raw, ban and unban take any subject literally", unknown.Subject))
	case errors.As(err, &unknown):
		return usageMistake(withoutPrefix(err))
	case errors.As(err, &invalid):
		return usageMistake(invalid.Err)
	case errors.As(err, &store):
		err = fmt.Errorf("the store: %w", store.Err)
		if store.Kind == stint.KindAuth {
			err = fmt.Errorf("%w; %s", err, doctorHint)
		}
		return unreachable(err)
	}
	return err
}

// withoutPrefix returns an error with the text of err, without the package name at its beginning.
func withoutPrefix(err error) error {
	text := err.Error()
	for _, name := range []string{"control: ", "simulate: ", "accesslog: "} {
		text = strings.TrimPrefix(text, name)
	}
	return errors.New(text)
}

func refusal(e *control.RefusedError) error {
	e = &control.RefusedError{Status: e.Status, Code: e.Code, Message: oneLine(e.Message)}
	switch {
	case e.Message == "", e.Code == control.CodeNotFound, e.Status == http.StatusTooManyRequests,
		e.Status == http.StatusBadGateway:
		// A different listener, or an upstream, sent the response.
		return unreachable(fmt.Errorf("the server responded with %d %s; want the admin listener of stint in --server",
			e.Status, http.StatusText(e.Status)))
	case e.Status == http.StatusBadRequest, e.Status == http.StatusNotFound:
		return usageMistake(e)
	}
	return unreachable(e)
}
