package main

import (
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/grpclog"
)

// flushTime is the maximum time that an exiting process waits for its log to be written.
const flushTime = time.Second

// newLogger returns the logger of a long-running command and makes it the default logger. From then
// on, the process neither blocks nor ends if standard error is closed, is not read, or cannot be
// written to.
func (s *system) newLogger(level slog.Level, format string) *slog.Logger {
	handler := func(to io.Writer) slog.Handler {
		options := &slog.HandlerOptions{Level: level}
		if format == "json" {
			options.ReplaceAttr = durationInSeconds
			return slog.NewJSONHandler(escaped{to}, options)
		}
		return slog.NewTextHandler(escaped{to}, options)
	}
	s.logs = newLogQueue(s.Stderr, func(to io.Writer, dropped int64) {
		slog.New(handler(to)).Error("stint: log records were dropped, because standard error was not read in time or could not be written",
			"dropped", dropped)
	})
	signal.Ignore(syscall.SIGPIPE)
	logger := slog.New(handler(s.logs))
	slog.SetDefault(logger)
	return logger
}

// durationInSeconds makes JSON logs write durations in seconds, like stint's other JSON output.
func durationInSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// redirectGRPC makes gRPC send errors to the default logger instead of standard error.
func redirectGRPC() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, grpcErrors{}))
}

type grpcErrors struct{}

// Write logs an error from gRPC. It leaves out the time and the level at the beginning of the line.
func (grpcErrors) Write(line []byte) (int, error) {
	if _, text, ok := strings.Cut(string(line), "ERROR: "); ok {
		slog.Error("grpc: " + strings.TrimSpace(text))
	}
	return len(line), nil
}
