package grpclimit

import (
	"context"
	"sync"

	"github.com/stint-limiter/stint/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// messageStream is a stream on which messages are checked as they are received. The verdict on a
// message applies until the next message arrives or the handler returns.
type messageStream struct {
	accountedStream
	call *call
	stop context.CancelCauseFunc // ends the handler's context

	mu      sync.Mutex // guards the fields below: a handler may receive in another goroutine
	finish  func(policy.Outcome)
	trailer metadata.MD
	denial  error
	over    bool // whether the handler has returned
}

// serveMessages calls a handler, and checks every message that the handler receives.
func serveMessages(c *call, srv any, stream grpc.ServerStream, handler grpc.StreamHandler) error {
	ctx, stop := context.WithCancelCause(c.ctx)
	defer stop(nil)
	a := &account{}
	s := &messageStream{accountedStream: accountedStream{stream, a.listenIn(ctx), a}, call: c, stop: stop}
	err := errPanicked // overwritten unless the handler panics
	defer func() { s.close(a.outcome(c.ctx, err)) }()
	err = handler(srv, s)
	if denial := s.denied(); denial != nil {
		err = denial // overrides what the handler returned
	}
	return err
}

// RecvMsg receives and checks a message. After a denial, it always returns that denial.
func (s *messageStream) RecvMsg(m any) error {
	if err := s.denied(); err != nil {
		return err
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	finish, err := s.succeed()
	if err != nil {
		return err
	}
	if finish != nil {
		finish(s.account.outcome(s.call.ctx, nil))
	}
	trailer, err := s.call.judge()
	if err != nil {
		s.deny(trailer, err)
		return err
	}
	s.account.open(s.call.verdict)
	s.admit(trailer, s.call.server.guard.Follow(s.call.ctx, s.call.verdict))
	return nil
}

// SendMsg sends a message. After a denial, it only returns that denial.
func (s *messageStream) SendMsg(m any) error {
	if err := s.denied(); err != nil {
		return err
	}
	return s.accountedStream.SendMsg(m)
}

func (s *messageStream) denied() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.denial
}

func (s *messageStream) deny(trailer metadata.MD, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trailer, s.denial = trailer, err
	s.stop(err)
}

func (s *messageStream) admit(trailer metadata.MD, finish func(policy.Outcome)) {
	s.mu.Lock()
	over := s.over
	if !over {
		s.trailer, s.finish = trailer, finish
	}
	s.mu.Unlock()
	if over && finish != nil { // the handler returned before it got the message
		finish(s.account.outcome(s.call.ctx, nil))
	}
}

// succeed prepares the stream for the next message. It returns the function that finishes the
// previous message, or nil if there is none. From then until admit is called, only RecvMsg uses
// call.verdict, so RecvMsg can replace it. succeed fails if the handler has returned.
func (s *messageStream) succeed() (finish func(policy.Outcome), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, status.Error(codes.Canceled, "grpclimit: the handler has returned")
	}
	finish, s.finish = s.finish, nil
	return finish, nil
}

// close ends the stream after the handler has returned, and settles its last message.
func (s *messageStream) close(outcome policy.Outcome) {
	s.mu.Lock()
	s.over = true
	finish, trailer := s.finish, s.trailer
	s.mu.Unlock()
	s.ServerStream.SetTrailer(trailer)
	if finish != nil {
		finish(outcome)
	}
}
