package httplimit

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// able is a writer that can do everything, and remembers what it did.
type able struct {
	http.ResponseWriter
	did []string
}

func (a *able) do(what string) { a.did = append(a.did, what) }

func (a *able) Flush() { a.do("flush") }

func (a *able) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.do("hijack")
	return nil, nil, nil
}

func (a *able) CloseNotify() <-chan bool {
	a.do("notify")
	return nil
}

func (a *able) Push(string, *http.PushOptions) error {
	a.do("push")
	return nil
}

// A recorder can flush and hijack if its writer can, and not otherwise. It passes on other calls as
// far as its writer has them.
func TestRecorderHasTheAbilitiesOfItsWriter(t *testing.T) {
	type (
		W = http.ResponseWriter
		F = http.Flusher
		H = http.Hijacker
		N = interface{ CloseNotify() <-chan bool }
		P = http.Pusher
	)
	a := &able{ResponseWriter: httptest.NewRecorder()}
	plain := struct{ W }{a.ResponseWriter}
	for _, test := range []struct {
		w    http.ResponseWriter
		want []string
	}{
		{plain, nil},
		{struct {
			W
			F
		}{plain, a}, []string{"flush"}},
		{struct {
			W
			H
		}{plain, a}, []string{"hijack"}},
		{struct {
			W
			F
			H
		}{plain, a, a}, []string{"flush", "hijack"}},
		{struct {
			W
			N
		}{plain, a}, []string{"notify"}},
		{struct {
			W
			P
		}{plain, a}, []string{"push"}},
		{a, []string{"flush", "hijack", "notify", "push"}},
	} {
		a.did = nil
		r := &recorder{ResponseWriter: test.w}
		got := r.wrapped()
		status := 101
		if f, ok := got.(F); ok {
			f.Flush()
			status = 200
		}
		if h, ok := got.(H); ok {
			if h.Hijack(); r.status != status {
				t.Errorf("%q: a connection that was taken over has the status %d, want %d", test.want, r.status, status)
			}
		}
		got.(N).CloseNotify()
		var want error = http.ErrNotSupported
		if slices.Contains(test.want, "push") {
			want = nil
		}
		if err := got.(P).Push("/", nil); err != want {
			t.Errorf("%q: push: got %v, want %v", test.want, err, want)
		}
		if !slices.Equal(a.did, test.want) {
			t.Errorf("got %q, want %q", a.did, test.want)
		}
	}
}
