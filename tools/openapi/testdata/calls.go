// Command calls makes every call of the API through the client that oapi-codegen generates, and
// checks the responses. A test of package server runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/stint-limiter/stint/tools/openapi/stint"
)

var ctx = context.Background()

func main() {
	client := connect(os.Getenv("STINT_URL"), setHeader("Authorization", "Bearer "+os.Getenv("STINT_TOKEN")))
	decisions(client)
	batch(client)
	charges(client)
	usage(client)
	problems(client)
	if err := example(os.Getenv("STINT_URL"), os.Getenv("STINT_TOKEN")); err != nil {
		fail("the example of docs/api.md: %v", err)
	}
}

// Example.

func example(url, token string) error {
	client, err := stint.NewClientWithResponses(url, stint.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		}))
	if err != nil {
		return err
	}
	var request stint.Request
	if err := request.FromByTier(stint.ByTier{Subject: "user:42", Tier: "free"}); err != nil {
		return err
	}
	answer, err := client.TakeWithResponse(context.Background(), nil, request)
	switch {
	case err != nil:
		return err
	case answer.JSON200 != nil:
		fmt.Println("allowed:", answer.JSON200.Limits[0].Remaining, "left")
	case answer.JSON429 != nil && answer.JSON429.RetryAfterSeconds != nil:
		fmt.Println("denied: wait for", *answer.JSON429.RetryAfterSeconds, "seconds")
	default:
		return errors.New(answer.Status())
	}
	return nil
}

// End of the example.

func decisions(client *stint.ClientWithResponses) {
	requests := []stint.Request{
		union((*stint.Request).FromByAttributes, stint.ByAttributes{Method: "POST", Path: "/login",
			Peer: new("203.0.113.9"), Host: new("example.com"), Headers: &stint.Headers{"User-Agent": "calls"},
			Claims: &stint.Claims{"user": "go"}, Cost: new(int64(2)), Id: new("go-1")}),
		union((*stint.Request).FromByPolicy, stint.ByPolicy{Subject: "go:1", Policy: "login", Tier: new("free"),
			Scope: new("calls"), Cost: new(int64(1)), Id: new("go-2")}),
		union((*stint.Request).FromByTier, stint.ByTier{Subject: "go:1", Tier: "free", Scope: new("calls"),
			Cost: new(int64(3)), Id: new("go-3")}),
		union((*stint.Request).FromByLimits, stint.ByLimits{Subject: "go:1", Limits: []string{"100/1m"},
			Scope: new("calls"), Cost: new(int64(1 << 53)), Id: new("go-4")}),
	}
	for i, request := range requests[:3] {
		peek := got(client.PeekWithResponse(ctx, request))
		check("peek", peek.JSON200.Allowed, true)
		check("peek: charge", peek.JSON200.Charge, "")
		take := got(client.TakeWithResponse(ctx, nil, request))
		check("take", take.JSON200.Allowed, true)
		check("take: cost", take.JSON200.Cost, []int64{2, 1, 3}[i])
		check("take: policy", take.JSON200.Policy, []string{"login", "login", "free"}[i])
		check("take: retry_after_seconds", *take.JSON200.RetryAfterSeconds, 0)
		limit := take.JSON200.Limits[0]
		check("take: used and left", limit.Used+limit.Remaining, limit.Max)
		check("take: header", *take.Headers200.XRateLimitCost, take.JSON200.Cost)
		repeat := got(client.TakeWithResponse(ctx, nil, request))
		check("take: repeat", repeat.JSON200.Repeat, true)
	}
	// The cost is larger than the limit: no wait helps, so the field is null.
	never := got(client.TakeWithResponse(ctx, nil, requests[3]))
	check("take: never", never.JSON429.RetryAfterSeconds, (*float64)(nil))
	check("take: cost", never.JSON429.Cost, 1<<53)
	never = got(client.TakeWithResponse(ctx, &stint.TakeParams{Status: new(stint.TakeParamsStatus(200))}, requests[3]))
	check("take: a denial as 200", never.JSON200.Allowed, false)

	hourly := []string{"1/1h bucket"}
	var book stint.ReserveRequest
	must(book.FromReserveByLimits(stint.ReserveByLimits{Subject: "go:2", Limits: hourly, MaxWaitSeconds: new(7200.5)}))
	check("reserve", *got(client.ReserveWithResponse(ctx, nil, book)).JSON200.RetryAfterSeconds, 0)
	later := got(client.ReserveWithResponse(ctx, nil, book)).JSON200
	check("reserve: a wait", *later.RetryAfterSeconds > 3000, true)
	must(book.FromReserveByLimits(stint.ReserveByLimits{Subject: "go:2", Limits: hourly, MaxWaitSeconds: new(0.5)}))
	denied := got(client.ReserveWithResponse(ctx, nil, book))
	check("reserve: denied", denied.JSON429.Allowed, false)
	check("reserve: Retry-After", *denied.Headers429.RetryAfter > 3000, true)
	var turn stint.WaitRequest
	must(turn.FromWaitByLimits(stint.WaitByLimits{Subject: "go:2", Limits: hourly, MaxWaitSeconds: new(0.5)}))
	check("wait: denied", got(client.WaitWithResponse(ctx, nil, turn)).JSON429.Allowed, false)
	must(turn.FromWaitForAPI(stint.WaitForAPI{Api: "igdb"}))
	check("wait", got(client.WaitWithResponse(ctx, nil, turn)).JSON200.Limits[0].Limit, "4/1s")
	cooled := got(client.CooldownWithResponse(ctx, stint.CooldownRequest{Api: "igdb", ForSeconds: 0.5}))
	check("cooldown", cooled.JSON200.PausedSeconds, 0.5)
	check("peek: denied", got(client.PeekWithResponse(ctx, union((*stint.Request).FromByLimits,
		stint.ByLimits{Subject: "go:2", Limits: hourly}))).JSON200.Allowed, false)
}

func batch(client *stint.ClientWithResponses) {
	items := []stint.BatchItem{
		union((*stint.BatchItem).FromBatchByAttributes, stint.BatchByAttributes{Method: "GET", Path: "/",
			Peer: new("203.0.113.9")}),
		union((*stint.BatchItem).FromBatchByPolicy, stint.BatchByPolicy{Subject: "go:3", Policy: "login",
			Mode: new(stint.Peek)}),
		union((*stint.BatchItem).FromBatchByTier, stint.BatchByTier{Subject: "go:3", Tier: "free",
			Mode: new(stint.Reserve), MaxWaitSeconds: new(0.25)}),
		union((*stint.BatchItem).FromBatchByLimits, stint.BatchByLimits{Subject: "go:3", Limits: []string{"1/1m"},
			Cost: new(int64(2))}),
	}
	results := got(client.BatchWithResponse(ctx, stint.BatchRequest{Requests: items})).JSON200.Results
	check("batch", len(results), len(items))
	for i, want := range []int32{200, 200, 200, 429} {
		check("batch: status", results[i].Status, want)
		check("batch: allowed", results[i].Decision.Allowed, want == 200)
		check("batch: problem", results[i].Problem, (*stint.Problem)(nil))
	}
}

func charges(client *stint.ClientWithResponses) {
	take := func(policy string) string {
		charge := got(client.TakeWithResponse(ctx, nil, union((*stint.Request).FromByPolicy,
			stint.ByPolicy{Subject: "go:4", Policy: policy}))).JSON200.Charge
		check("take: a charge", charge != "", true)
		return charge
	}
	budget := func() string {
		return got(client.TakeWithResponse(ctx, nil, union((*stint.Request).FromByTier,
			stint.ByTier{Subject: "go:4", Tier: "free", Cost: new(int64(3))}))).JSON200.Charge
	}
	settle := stint.SettleRequest{Charge: budget(), Cost: new(int64(1))}
	check("settle", got(client.SettleWithResponse(ctx, settle)).JSON200.Changed, true)
	check("settle: again", got(client.SettleWithResponse(ctx, settle)).JSON200.Changed, false)
	refund := func(charge string) stint.RefundRequest {
		return union((*stint.RefundRequest).FromChargeRequest, stint.ChargeRequest{Charge: charge})
	}
	check("refund", got(client.RefundWithResponse(ctx, refund(take("login")))).JSON200.Changed, true)
	place := take("export")
	check("extend", got(client.ExtendWithResponse(ctx, stint.ExtendRequest{Charge: place})).JSON200.Changed, true)
	check("release", got(client.ReleaseWithResponse(ctx, stint.ChargeRequest{Charge: place})).JSON200.Changed, true)
	gone := got(client.ExtendWithResponse(ctx, stint.ExtendRequest{Charge: place}))
	check("extend: lost", gone.JSON200.Changed, false)

	// Work whose cost is known only afterward, in two quantities.
	stream := union((*stint.Request).FromByLimits, stint.ByLimits{Subject: "go:8",
		Limits: []string{"in: 1000/1d", "out: 1000/1d"}, Costs: &stint.Costs{"in": 100, "out": 400},
		HoldSeconds: new(300.5), Id: new("go-8")})
	hold := got(client.TakeWithResponse(ctx, nil, stream)).JSON200
	check("take: hold_seconds", *hold.HoldSeconds, 300.5)
	check("extend: a hold", got(client.ExtendWithResponse(ctx, stint.ExtendRequest{Charge: hold.Charge,
		Costs: &stint.Costs{"out": 50}})).JSON200.Changed, true)
	settled := got(client.SettleWithResponse(ctx, stint.SettleRequest{Charge: hold.Charge,
		Costs: &stint.Costs{"in": 100, "out": 70}})).JSON200
	check("settle: charged", *settled.Charged, 170)
	lost := stint.ByTier{Subject: "go:9", Tier: "free", Id: new("go-9")}
	first := got(client.TakeWithResponse(ctx, nil, union((*stint.Request).FromByTier, lost)))
	check("take", first.JSON200.Allowed, true)
	byID := union((*stint.RefundRequest).FromByTier, lost)
	check("refund: by id", got(client.RefundWithResponse(ctx, byID)).JSON200.Changed, true)
	used := union((*stint.Request).FromByTier, stint.ByTier{Subject: "go:9", Tier: "free", Cost: new(int64(120))})
	check("report", got(client.ReportWithResponse(ctx, used)).JSON200.Limits[1].Used, 120)

	both := got(client.TakeWithResponse(ctx, nil, union((*stint.Request).FromByPolicy, stint.ByPolicy{
		Subject: "go:6", Policy: "search", Claims: &stint.Claims{"rpm": "500"},
		And: &stint.And{{Subject: "go:7", Policy: new("login")}}}))).JSON200
	check("take: a number from a claim", both.Limits[0].Max, 500)
	check("take: together", both.Limits[1].Subject, "go:7")
	check("refund: together", got(client.RefundWithResponse(ctx, refund(both.Charge))).JSON200.Changed, true)
}

func usage(client *stint.ClientWithResponses) {
	of := got(client.UsageWithResponse(ctx, setHeader("X-User-ID", "go")))
	check("usage: tier", of.JSON200.Tier, "free")
	check("usage: limit", of.JSON200.Limits[0].Limit, "10/1m")
	check("usage: subject", of.JSON200.Limits[0].Subject, "user:go")
	check("usage: used", of.JSON200.Limits[0].Used, 1)
	check("usage: unknown", got(client.UsageWithResponse(ctx)).JSON401.Error, stint.ProblemErrorUnauthorized)
}

// problems makes calls that fail, each with an error response of the same form.
func problems(client *stint.ClientWithResponses) {
	free := union((*stint.Request).FromByTier, stint.ByTier{Subject: "go:5", Tier: "free"})
	document := *got(client.DescribeWithResponse(ctx)).JSON200
	check("describe", document["openapi"], "3.1.0")

	misspelled := union((*stint.Request).FromByTier, stint.ByTier{Subject: "go:5", Tier: "fre"})
	invalid := got(client.TakeWithResponse(ctx, nil, misspelled)).JSON400
	check("400", invalid.Error, stint.ProblemErrorInvalid)
	check("400: field", (*invalid.Mistakes)[0].Field, "tier")
	stranger := connect(os.Getenv("STINT_URL"))
	check("401", got(stranger.TakeWithResponse(ctx, nil, free)).JSON401.Error, stint.ProblemErrorUnauthorized)
	check("403", got(client.TakeWithResponse(ctx, nil, free, setHeader("Sec-Fetch-Site", "cross-site"))).JSON403.Error,
		stint.ProblemErrorForbidden)
	long := union((*stint.Request).FromByTier, stint.ByTier{Subject: strings.Repeat("x", 1<<16), Tier: "free"})
	check("413", got(client.TakeWithResponse(ctx, nil, long)).JSON413.Error, stint.ProblemErrorTooLarge)
	unavailable := got(connect(os.Getenv("STINT_DOWN_URL")).TakeWithResponse(ctx, nil, free))
	check("503", unavailable.JSON503.Error, stint.ProblemErrorUnavailable)
	check("503: Retry-After", *unavailable.Headers503.RetryAfter > 0, true)
}

func connect(url string, editors ...stint.RequestEditorFn) *stint.ClientWithResponses {
	return got(stint.NewClientWithResponses(url, func(c *stint.Client) error {
		c.RequestEditors = append(editors, setHeader("User-Agent", "calls.go"))
		return nil
	}))
}

func setHeader(name, value string) stint.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set(name, value)
		return nil
	}
}

// union returns a body in one of its forms.
func union[Body, Form any](from func(*Body, Form) error, form Form) (body Body) {
	must(from(&body, form))
	return body
}

func got[Answer any](answer Answer, err error) Answer {
	must(err)
	return answer
}

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func check[Value any](what string, got, want Value) {
	if !reflect.DeepEqual(got, want) {
		fail("%s: got %v, want %v", what, got, want)
	}
}

func fail(format string, args ...any) {
	panic(fmt.Sprintf(format, args...)) // shows which call failed
}
