package resilience

import (
	"context"
	"errors"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// without decides a request that the store failed to decide, by the [stint.FailurePolicy] of the
// request or, if it has none, that of the stack; see the package documentation. If the request was
// sent, sent is its waiter, because the answer may still come; otherwise sent is nil. Requests for
// a lease, requests that move a booking and requests with Fit get the error.
func (s *Stack) without(ctx context.Context, q *question, sent *waiter, cause error) error {
	r := &q.request
	failure, ok := errors.AsType[*stint.StoreError](cause)
	if !ok || ctx.Err() != nil && errors.Is(cause, context.Canceled) {
		s.refundWhenAnswered(r, sent)
		return cause // the caller made a mistake, or its context has ended
	}
	if sent != nil {
		if d, ok := s.batch.arrived(sent); ok { // the answer came just after the deadline
			q.decision = d
			s.ledger.adopt(r, &q.decision, sent.number)
			return nil
		}
	}
	mode := s.config.Failure.Mode
	if r.Failure != nil {
		mode = r.Failure.Mode
	}
	if mode == stint.FailError || r.Terms().Booked != nil || r.Terms().Fit || r.Terms().Lease > 0 {
		s.refundWhenAnswered(r, sent)
		s.failed(failure, &s.outage.others, &r.Claims[0], stint.FailError.String())
		return cause
	}
	if anyLeased(r) {
		mode = stint.FailDeny
	}
	s.failed(failure, &s.outage.decisions, &r.Claims[0], mode.String())
	switch mode {
	case stint.FailLocal:
		if err := s.decideHere(q, sent); err != nil {
			s.refundWhenAnswered(r, sent)
			return cause // the stack is closed
		}
	case stint.FailAllow:
		q.decision = flat(r, true)
		if r.Mode == stint.ModeReserve || anyPlace(r.Claims) { // otherwise the booking or place would never be given back
			s.refundWhenAnswered(r, sent)
		}
	default:
		q.decision = flat(r, false)
		s.refundWhenAnswered(r, sent)
	}
	q.decision.Degraded = true
	q.event.Source, q.event.Mode, q.event.Cause = SourceFallback, mode, cause
	return nil
}

func (s *Stack) decideHere(q *question, sent *waiter) (err error) {
	if s.starting() {
		<-s.sharing.startup.Done()
	}
	s.warnIfAlone()
	var owes *debt
	if q.decision, owes, err = s.ledger.decide(&q.request, sent != nil); err != nil {
		return err
	}
	switch d := &q.decision; {
	case sent != nil && owes != nil:
		s.batch.whenAnswered(sent, func(d stint.Decision, err error, call uint64) {
			s.ledger.resolve(owes, &d, err, call)
			s.sender.start()
		})
	case d.Repeat: // if the store has a charge with this ID, that charge belongs to the original request
	case !d.Allowed || q.request.Mode == stint.ModePeek:
		s.refundWhenAnswered(&q.request, sent)
	default:
		s.sender.start()
	}
	return nil
}

// refundWhenAnswered handles the late answer to a request that was sent, after the caller was
// answered without the store. If the store charged the request, the charge is refunded. If the
// request was to move a booking and the store did not move it, the booking is refunded. sent is the
// request's waiter; if it is nil, refundWhenAnswered does nothing.
func (s *Stack) refundWhenAnswered(r *stint.Request, sent *waiter) {
	if sent == nil {
		return
	}
	var booking stint.Charge
	if booked := r.Terms().Booked; booked != nil {
		booking.SetClaims(copied(r.Claims))
		*booking.Data() = *booked
	}
	s.batch.whenAnswered(sent, func(d stint.Decision, err error, _ uint64) {
		switch {
		case err != nil || d.Repeat:
		case d.Charge.Data().ID != 0:
			s.sender.refund(d.Charge, d.RetryAfter == 0) // the ledger records no usage from the answer to a booking
		case booking.Data().ID != 0 && !d.Degraded: // a degraded answer does not tell whether the booking was moved
			s.sender.refund(booking, false)
		}
	})
}

// flat returns a decision that does not depend on usage. An allowed one has no usages: zeros would
// mean that every limit is unused. A denied one reports for every limit when to retry.
func flat(r *stint.Request, allowed bool) stint.Decision {
	d := stint.Decision{Allowed: allowed, Unavailable: !allowed, Charge: contract.ChargeOf(r)}
	if allowed {
		return d
	}
	d.RetryAfter = outageRetry
	usages := d.MakeUsages(contract.CountLimits(r.Claims))
	for i := range usages {
		usages[i].RetryAfter = outageRetry
	}
	return d
}

func anyLeased(r *stint.Request) bool {
	return slices.ContainsFunc(r.Claims, func(c stint.Claim) bool { return slices.ContainsFunc(c.Limits, isLeased) })
}

func isLeased(l stint.Limit) bool { return l.Leased }

// anyPlace reports whether claims take a place under a concurrency limit.
func anyPlace(claims []stint.Claim) bool {
	for c, l := range contract.Limits(claims) {
		if l.Algorithm == stint.AlgorithmConcurrency && c.CostOf(l) > 0 {
			return true
		}
	}
	return false
}
