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

// A recorder has the abilities of its writer, whichever they are, and no others.
func TestRecorderHasTheAbilitiesOfItsWriter(t *testing.T) {
	type (
		W = http.ResponseWriter
		F = http.Flusher
		H = http.Hijacker
		N = closeNotifier
		P = http.Pusher
	)
	a := &able{ResponseWriter: httptest.NewRecorder()}
	w := a.ResponseWriter.(*httptest.ResponseRecorder)
	plain := struct{ W }{w}
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
			F
			N
		}{plain, a, a}, []string{"flush", "notify"}},
		{struct {
			W
			H
			N
		}{plain, a, a}, []string{"hijack", "notify"}},
		{struct {
			W
			F
			H
			N
		}{plain, a, a, a}, []string{"flush", "hijack", "notify"}},
		{struct {
			W
			P
		}{plain, a}, []string{"push"}},
		{struct {
			W
			F
			P
		}{plain, a, a}, []string{"flush", "push"}},
		{struct {
			W
			H
			P
		}{plain, a, a}, []string{"hijack", "push"}},
		{struct {
			W
			F
			H
			P
		}{plain, a, a, a}, []string{"flush", "hijack", "push"}},
		{struct {
			W
			N
			P
		}{plain, a, a}, []string{"notify", "push"}},
		{struct {
			W
			F
			N
			P
		}{plain, a, a, a}, []string{"flush", "notify", "push"}},
		{struct {
			W
			H
			N
			P
		}{plain, a, a, a}, []string{"hijack", "notify", "push"}},
		{a, []string{"flush", "hijack", "notify", "push"}},
	} {
		a.did = nil
		got := (&recorder{ResponseWriter: test.w}).wrapped()
		if f, ok := got.(F); ok {
			f.Flush()
		}
		if h, ok := got.(H); ok {
			h.Hijack()
		}
		if n, ok := got.(N); ok {
			n.CloseNotify()
		}
		if p, ok := got.(P); ok {
			p.Push("/", nil)
		}
		if !slices.Equal(a.did, test.want) {
			t.Errorf("got %q, want %q", a.did, test.want)
		}
	}
}
