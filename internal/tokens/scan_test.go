package tokens

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// scan returns what a scanner finds in a text that comes in pieces of a size.
func scan(t testing.TB, p *Pointers, text string, size int) (found []string) {
	t.Helper()
	s := NewScanner(p, func(leaf int, value []byte, at int64) {
		found = append(found, fmt.Sprintf("%d=%s", leaf, value))
		if !strings.HasPrefix(text[at:], string(value)) {
			t.Errorf("%q is not at %d of %q", value, at, text)
		}
	})
	for piece := range slices.Chunk([]byte(text), size) {
		if n, err := s.Write(piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
		if len(s.text) > maxText || len(s.open) > p.depth+1 {
			t.Fatalf("keeps %d bytes and %d frames", len(s.text), len(s.open))
		}
	}
	return found
}

func pointers(t testing.TB, texts ...string) *Pointers {
	t.Helper()
	p := testkit.Must(NewPointers(texts...))(t)
	return p
}

func TestScanner(t *testing.T) {
	p := pointers(t, "/a", "/u/x", "/u", "/l/1/x", "/t~1~0", "")
	for _, test := range []struct{ text, want string }{
		{`{"a":1}`, "5={ 0=1"},
		{` { "a" : -1.5e3 , "b":2} `, "5={ 0=-1.5e3"},
		{`{"a":"x\"y\\"}`, `5={ 0="x\"y\\"`},
		{`{"a":null,"u":{"x":true}}`, "5={ 0=null 2={ 1=true"},
		{`{"\u0061":1}`, "5={ 0=1"},
		{`{"u":{"y":{"x":1},"x":2}}`, "5={ 2={ 1=2"},
		{`{"u":{"x":1,"x":2}}`, "5={ 2={ 1=1 1=2"},
		{`{"x":{"a":1,"u":{"x":9}},"a":2}`, "5={ 0=2"},
		{`{"l":[{"x":1},{"x":2},{"x":3}]}`, "5={ 3=2"},
		{`{"l":[],"a":1}`, "5={ 0=1"},
		{`{"l":[[[]],{"x":[1]}]}`, "5={ 3=["},
		{`{"t/~":1}`, "5={ 4=1"},
		{`{"a":1}{"a":2}` + "\n" + `{"a":3}`, "5={ 0=1 5={ 0=2 5={ 0=3"},
		{`[{"a":1},{"a":2}]`, "5={ 0=1 5={ 0=2"},
		{`[[{"a":1}],{"a":2}]`, "5=[ 5={ 0=2"},
		{`{"s":"{\"a\":1}","a":2}`, "5={ 0=2"},
		{`{"s":"\\","a":2}`, "5={ 0=2"},
		{`{"s":"\\\"","a":2}`, "5={ 0=2"},
		{`{"a" 1}`, "5={"},
		{`{"a":1]`, "5={ 0=1"},
		{`{"a":1,}`, "5={ 0=1"},
		{`{"a":x,"u":1}`, "5={"},
		{`[DONE]`, ""},
		{`{"a":1`, "5={"}, // a number may go on
		{`{"a":"` + strings.Repeat("x", 300) + `","u":1}`, "5={ 2=1"},
		{`{"` + strings.Repeat("x", 300) + `":1,"u":1}`, "5={ 2=1"},
		{strings.Repeat(`{"z":[`, 1000) + "1" + strings.Repeat("]}", 1000) + `{"a":1}`, "5={ 5={ 0=1"},
		{"", ""}, {"   ", ""}, {"\x00\xff", ""}, {"}", ""},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			if got := strings.Join(scan(t, p, test.text, size), " "); got != test.want {
				t.Errorf("%.80q by %d: got %q, want %q", test.text, size, got, test.want)
			}
		}
	}
}

func TestPointerMistakes(t *testing.T) {
	for _, text := range []string{"a", "/a~", "/a~2", "/" + strings.Repeat("x", maxPointer)} {
		if CheckPointer(text) == nil {
			t.Errorf("%.20q is accepted", text)
		}
	}
	if _, err := NewPointers("/a", "/a"); err == nil {
		t.Error("a pointer is accepted twice")
	}
}

// deep is a value of random nesting.
func deep(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.IntN(4) {
			m[[]string{"a", "u", "x", "l", `q"\`, "é"}[r.IntN(6)]] = deep(r, depth-1)
		}
		return m
	case n < 5 && depth > 0:
		l := []any{}
		for range r.IntN(4) {
			l = append(l, deep(r, depth-1))
		}
		return l
	case n < 6:
		return strings.Repeat(`é"\{[,`, r.IntN(5))
	case n < 7:
		return r.IntN(1000)
	}
	return []any{nil, true, false}[r.IntN(3)]
}

// follow is what a pointer means to encoding/json.
func follow(v any, path ...string) (any, bool) {
	for _, part := range path {
		switch c := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = c[part]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(c) {
				return nil, false
			}
			v = c[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// The scanner finds what encoding/json finds, in any pieces.
func TestScannerAgainstJSON(t *testing.T) {
	paths := [][]string{{"a"}, {"u", "x"}, {"l", "0", "x"}, {"l", "2"}, {"x", "x", "x"}}
	var texts []string
	for _, path := range paths {
		texts = append(texts, "/"+strings.Join(path, "/"))
	}
	p := pointers(t, texts...)
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		value := map[string]any{"a": deep(r, 5), "u": deep(r, 5), "l": deep(r, 5), "x": deep(r, 5)}
		text := testkit.Must(json.Marshal(value))(t)
		var want []string
		for i, path := range paths {
			if v, ok := follow(value, path...); ok {
				token, _ := json.Marshal(v)
				if token[0] == '{' || token[0] == '[' {
					token = token[:1]
				}
				want = append(want, fmt.Sprintf("%d=%s", i, token))
			}
		}
		got := scan(t, p, string(text), 1+r.IntN(20))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got %q, want %q", text, got, want)
		}
	}
}

// FuzzScanner: no text makes the scanner fail or keep more than it may, and pieces do not matter.
func FuzzScanner(f *testing.F) {
	p := pointers(f, "/a", "/u/x", "/u", "/l/1/x", "")
	for _, seed := range []string{`{"a":1,"u":{"x":"\""}}`, `[{"l":[1,{"x":2}]}]`, `{"a":`, "[DONE]", "{{{{", `"\u00`} {
		f.Add(seed, uint8(1))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		whole, pieces := scan(t, p, text, max(len(text), 1)), scan(t, p, text, int(size)+1)
		if !slices.Equal(whole, pieces) {
			t.Errorf("got %q, in pieces %q", whole, pieces)
		}
	})
}
