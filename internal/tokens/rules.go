// Package tokens counts the tokens that requests to language models use. It estimates them from the
// request and reads the actual counts from the response. The gateway and the middleware use it
// through package policy. Package outbound and the simulation use it too.
//
// The package does not delay bodies, and keeps at most a kilobyte of a body. Scanner finds the
// values of a few JSON pointers in text that arrives in pieces. Its memory depends only on the
// pointers, not on the text.
package tokens

import (
	"bytes"
	"encoding/json"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint"
)

// These constants are the defaults of [Config].
const (
	DefaultOutput        = 1000
	DefaultBytesPerToken = 4
	DefaultBody          = 64 << 10
)

// These constants are the names of budgets that count a single quantity. All other budgets count
// weighted tokens.
const (
	InputName  = "input_tokens"
	OutputName = "output_tokens"
	CachedName = "cached_tokens"
	PriceName  = "price"
)

// Quantities lists the names of budgets that count a single quantity.
var Quantities = []string{InputName, OutputName, CachedName, PriceName}

// AnyModel is the key of the prices for all models that have no prices of their own.
const AnyModel = "default"

// Rates holds a number for each kind of token: weights, or prices per million tokens.
type Rates struct{ Input, Output, Cached int64 }

// Config describes how requests are estimated, and how responses are read.
type Config struct {
	Format
	// Default is the estimated output of a request that does not limit its output. BytesPerToken is
	// the approximate number of bytes per token in the body of a request. Body is the maximum
	// number of bytes to read from the body. If one of them is 0, its default applies.
	Default, BytesPerToken, Body int64
	// CountEvents applies to a stream that does not report its output. Each of its events whose
	// data is an object then counts as one token of output. Without CountEvents, the output of such
	// a stream is estimated.
	CountEvents bool
	// Inject makes streams of OpenAI's chat completions report their usage.
	Inject bool
	// Weights holds the weights of tokens in budgets; the zero Rates gives each token weight 1.
	Weights Rates
	// Prices maps models to their prices per million tokens. [AnyModel] stands for all other
	// models.
	Prices map[string]Rates
}

// Rules is a compiled [Config].
type Rules struct {
	config  Config
	request *Pointers
	kinds   []requestKind // the kind of value that each pointer in request leads to
	respond *Pointers
	slots   [][]int // indexes in numbers, for each pointer in respond
	fields  []field // header fields of a response that contain numbers
	numbers []kind  // the quantity that each number in a response counts
}

type requestKind uint8

const (
	isMax requestKind = iota
	isChoices
	isModel
	isDocument
	isStream
	isOptions
	isInclude
	isResponses
)

type kind uint8

const (
	isInput kind = iota
	isOutput
	isCached
)

// field is a response header field that contains a number. slot is the index of that number in
// Rules.numbers.
type field struct {
	name string
	slot int
}

// New returns the rules of a configuration. It fails if a JSON pointer in its Format is not valid.
func New(c Config) (*Rules, error) {
	if c.Default == 0 {
		c.Default = DefaultOutput
	}
	if c.BytesPerToken == 0 {
		c.BytesPerToken = DefaultBytesPerToken
	}
	if c.Body == 0 {
		c.Body = DefaultBody
	}
	if c.Weights == (Rates{}) {
		c.Weights = Rates{1, 1, 1}
	}
	r := &Rules{config: c}
	var request []string
	add := func(kind requestKind, pointers ...string) {
		for _, p := range pointers {
			request, r.kinds = append(request, p), append(r.kinds, kind)
		}
	}
	add(isMax, c.Max...)
	add(isChoices, c.Choices...)
	add(isModel, c.Model...)
	add(isDocument, "")
	if c.Inject {
		add(isStream, "/stream")
		add(isOptions, "/stream_options")
		add(isInclude, "/stream_options/include_usage")
		add(isResponses, "/input")
	}
	var err error
	if r.request, err = NewFolded(request...); err != nil {
		return nil, err
	}
	r.respond, err = NewPointers(r.places()...)
	return r, err
}

// places assigns a slot, an index in r.numbers, to every number in a response. It returns the
// pointers to the numbers.
func (r *Rules) places() (pointers []string) {
	index := map[string]int{}
	for k, places := range [][]string{r.config.Input, r.config.Output, r.config.Cached} {
		slot := map[string]int{}
		for _, place := range places {
			name := lastName(place)
			if _, ok := slot[name]; !ok {
				slot[name] = len(r.numbers)
				r.numbers = append(r.numbers, kind(k))
			}
			if !strings.HasPrefix(place, "/") {
				r.fields = append(r.fields, field{place, slot[name]})
				continue
			}
			if _, ok := index[place]; !ok {
				index[place] = len(pointers)
				pointers, r.slots = append(pointers, place), append(r.slots, nil)
			}
			r.slots[index[place]] = append(r.slots[index[place]], slot[name])
		}
	}
	return pointers
}

// IsQuantity reports whether a budget with this name counts a single quantity instead of weighted
// tokens.
func IsQuantity(name string) bool { return slices.Contains(Quantities, name) }

// SameQuantity reports whether budgets with these names count the same quantity.
func SameQuantity(a, b string) bool { return a == b || !IsQuantity(a) && !IsQuantity(b) }

// Body returns the maximum number of bytes to read from the body of a request.
func (r *Rules) Body() int64 { return r.config.Body }

// Counts holds numbers of tokens. A negative number means unknown.
type Counts struct {
	Input, Output, Cached int64
	// Events is the number of a stream's events whose data is an object; -1 if the response was not
	// a stream.
	Events int64
	// Model is the model of the request; "" if it is unknown.
	Model string
}

// Estimate estimates the usage of a request. head is the beginning of its body, and length is the
// length of the whole body, or negative if unknown. If the body is not a JSON object, the input is
// 0 and the output is the default.
func (r *Rules) Estimate(path string, head []byte, length int64) Counts {
	most, choices := int64(-1), int64(1)
	model, several, object := "", false, false
	scanner := NewScanner(r.request, func(leaf int, value []byte, at int64) {
		switch r.kinds[leaf] {
		case isMax:
			if n, ok := Number(value); ok && n > 0 { // some servers treat 0 as no limit
				most = max(most, n)
			}
		case isChoices:
			if n, ok := Number(value); ok {
				choices = max(choices, n)
			}
		case isModel:
			name := text(value)
			several = several || model != "" && model != name
			model = name
		case isDocument:
			object = value[0] == '{'
		}
	})
	_, _ = scanner.Write(head) // never fails
	switch {
	case several: // which of the names applies depends on the API
		model = ""
	case model == "":
		model = modelIn(path, r.config.ModelAfter)
	}
	c := Counts{Output: most, Events: -1, Model: model}
	if most < 0 {
		c.Output = r.config.Default
	}
	c.Output = multiply(c.Output, choices)
	if object {
		c.Input = (max(length, int64(len(head))) + r.config.BytesPerToken - 1) / r.config.BytesPerToken
	}
	return c
}

// Units returns the cost of the counts c under limits with the given name. Depending on the name,
// the cost is the number of tokens of one kind, the price, or the sum of the weighted tokens. If
// the model has no price, the cost under the name "price" is [stint.MaxUnits].
func (r *Rules) Units(c Counts, name string) int64 {
	input, output, cached := max(c.Input, 0), max(c.Output, 0), max(c.Cached, 0)
	cached = min(cached, input)
	switch name {
	case InputName:
		return min(input, stint.MaxUnits)
	case OutputName:
		return min(output, stint.MaxUnits)
	case CachedName:
		return min(cached, stint.MaxUnits)
	case PriceName:
		rates, ok := r.config.Prices[c.Model]
		if !ok {
			if rates, ok = r.config.Prices[AnyModel]; !ok {
				return stint.MaxUnits
			}
		}
		return rates.of(input-cached, output, cached, 1_000_000)
	}
	return r.config.Weights.of(input-cached, output, cached, 1)
}

// of returns the sum of the counts multiplied by their rates, divided by per and rounded up, but at
// most [stint.MaxUnits].
func (r Rates) of(input, output, cached int64, per uint64) int64 {
	var high, low uint64
	for _, part := range [...][2]int64{{input, r.Input}, {output, r.Output}, {cached, r.Cached}} {
		h, l := bits.Mul64(uint64(part[0]), uint64(part[1]))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	low, carry := bits.Add64(low, per-1, 0)
	high += carry
	if high >= per {
		return stint.MaxUnits
	}
	sum, _ := bits.Div64(high, low, per)
	return int64(min(sum, uint64(stint.MaxUnits)))
}

// multiply returns the product of a and b, but at most [stint.MaxUnits].
func multiply(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > uint64(stint.MaxUnits) {
		return stint.MaxUnits
	}
	return int64(low)
}

// Number parses a non-negative JSON number as a count. It rounds fractions up, and returns at most
// [stint.MaxUnits].
func Number(value []byte) (int64, bool) {
	if len(value) == 0 || value[0] < '0' || value[0] > '9' || bytes.ContainsAny(value, "xX_") {
		return 0, false // also rejects "inf", and "0x10", which [strconv.ParseFloat] accepts
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return min(n, stint.MaxUnits), true
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil && !math.IsInf(f, 1) {
		return 0, false
	}
	return int64(math.Ceil(min(f, float64(stint.MaxUnits)))), true
}

// text parses a JSON string. It returns "" for any other value.
func text(value []byte) (s string) {
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}
