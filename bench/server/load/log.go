package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// request is k6's record of a request: when it was sent and answered, by the clock that Redis uses,
// and the status of the response.
type request struct {
	user, route string
	status      int // 0 if there was no answer
	from, to    time.Time
	degraded    bool // answered without Redis
}

func (r *request) admitted() bool { return r.status == http.StatusOK }
func (r *request) denied() bool   { return r.status == http.StatusTooManyRequests }

// The columns of k6's CSV output that are read. Times are in microseconds if K6_CSV_TIME_FORMAT is
// unix_micro.
var columns = []string{"metric_name", "timestamp", "metric_value", "name", "status", "metadata"}

// readLog reads k6's CSV output, which has a line per measurement. The line with a request's
// duration is enough, because its timestamp is the time of the answer. If the answer is marked as
// given without Redis, another line follows.
func readLog(in io.Reader) ([]request, error) {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("request log: %w", err)
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		if at[i] = slices.Index(header, name); at[i] < 0 {
			return nil, fmt.Errorf("request log: no column %s", name)
		}
	}
	var list, without []request
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return list, mark(list, without)
		}
		if err != nil {
			return nil, fmt.Errorf("request log: %w", err)
		}
		kind := row[at[0]]
		if kind != "http_req_duration" && kind != "degraded" {
			continue
		}
		q, err := parseRequest(row[at[1]], row[at[2]], row[at[3]], row[at[4]], row[at[5]])
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("request log, line %d: %w", line, err)
		}
		if kind == "degraded" {
			without = append(without, q)
		} else {
			list = append(list, q)
		}
	}
}

// mark marks the requests that were answered without Redis. A user sends one request at a time, so
// the request to mark is the user's last one before the extra line.
func mark(list, without []request) error {
	last := map[string][]*request{} // by user, in the order of answers
	for i := range list {
		last[list[i].user] = append(last[list[i].user], &list[i])
	}
	for _, of := range last {
		slices.SortFunc(of, func(a, b *request) int { return a.to.Compare(b.to) })
	}
	for _, q := range without {
		of := last[q.user]
		n, _ := slices.BinarySearchFunc(of, q.to, func(r *request, at time.Time) int {
			if r.to.After(at) {
				return 1
			}
			return -1
		})
		if n == 0 {
			return fmt.Errorf("request log: an answer without Redis for %s, but no request", q.user)
		}
		of[n-1].degraded = true
	}
	return nil
}

func parseRequest(timestamp, milliseconds, route, status, metadata string) (request, error) {
	end, endErr := strconv.ParseInt(timestamp, 10, 64)
	took, tookErr := strconv.ParseFloat(milliseconds, 64)
	code, codeErr := strconv.Atoi(status)
	about, aboutErr := url.ParseQuery(metadata)
	if err := errors.Join(endErr, tookErr, codeErr, aboutErr); err != nil {
		return request{}, err
	}
	q := request{user: about.Get("user"), route: route, status: code, to: time.UnixMicro(end)}
	q.from = q.to.Add(-time.Duration(took * float64(time.Millisecond)))
	if _, ok := tierRules[tierOf(q.user)]; !ok {
		return request{}, fmt.Errorf("invalid user %q; want a tier, a colon and a number", q.user)
	}
	if _, ok := routeRules[route]; !ok {
		return request{}, fmt.Errorf("unknown route %q", route)
	}
	return q, nil
}
