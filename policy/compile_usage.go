package policy

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tokens"
)

const (
	// usageHold is the default Hold of a policy with Usage.
	usageHold = 5 * time.Minute
	// maxUsageBody is the largest valid value of [TokenUsage.Body].
	maxUsageBody = 1 << 20
	// injectPreset is the preset of the only API that supports TokenUsage.Inject.
	injectPreset = "openai"
)

// usage checks how a policy counts tokens. It returns the rules for counting, or nil if the policy
// does not count tokens or has mistakes.
func (c *compiler) usage(key string, from *Policy) *tokens.Rules {
	u := from.Usage
	if u == nil {
		return nil
	}
	format, known := tokens.Presets()[u.Preset]
	if !known && u.Preset != "" {
		c.mistake(key+".preset", "unknown preset %q; %s", u.Preset, messages.Want(u.Preset, tokens.Names()))
	}
	mistakes := len(c.errs)
	for _, list := range []struct {
		key       string
		from      []string
		to        *[]string
		responses bool
	}{
		{"max_output", u.MaxOutput, &format.Max, false},
		{"choices", u.Choices, &format.Choices, false},
		{"model", u.Model, &format.Model, false},
		{"input", u.Input, &format.Input, true},
		{"output", u.Output, &format.Output, true},
		{"cached", u.Cached, &format.Cached, true},
	} {
		c.places(key+"."+list.key, list.from, list.responses)
		if list.from != nil {
			*list.to = list.from
		}
	}
	if u.Model != nil {
		format.ModelAfter = ""
	}
	if mistakes == len(c.errs) && u.Preset == "" && (len(format.Input) == 0 || len(format.Output) == 0) {
		c.mistake(key, "has neither a preset nor both input and output; want preset: %s",
			messages.OneOf(tokens.Names()))
	}
	for i, place := range u.Output {
		if slices.Contains(format.Input, place) {
			c.mistake(at(key+".output", i, u.Output), "%q is also under input, so it would count twice; "+
				"want it in one of the lists", place)
		}
	}
	if u.Inject && u.Preset != injectPreset && mistakes == len(c.errs) {
		c.mistake(key+".inject_usage", "adds an option that only OpenAI's API has, and other APIs always report usage; "+
			"want preset: %s, or no inject_usage", injectPreset)
	}
	c.inUnits(key+".default_output", u.DefaultOutput)
	c.inUnits(key+".bytes_per_token", u.BytesPerToken)
	if u.Body < 0 || u.Body > maxUsageBody {
		c.mistake(key+".body", "%d bytes; want 1 byte to 1MiB, which every request may take in memory", u.Body)
	}
	if from.Cost != nil {
		c.mistake(strings.TrimSuffix(key, "usage")+"cost", "with usage, a request costs its tokens; want one or the other")
	}
	if from.SettleHeader != "" || from.SettleBytes != 0 {
		c.mistake(strings.TrimSuffix(key, "usage")+"settle", "with usage, the response reports the true cost; "+
			"want one or the other, or a header field under usage.output")
	}
	config := tokens.Config{Format: format, Default: u.DefaultOutput, BytesPerToken: u.BytesPerToken, Body: u.Body,
		CountEvents: u.CountEvents, Inject: u.Inject, Prices: map[string]tokens.Rates{}}
	if u.Weights != nil {
		c.rates(key+".weights", *u.Weights)
		config.Weights = tokens.Rates(*u.Weights)
		if *u.Weights == (Rates{}) {
			c.mistake(key+".weights", "all are 0, so that nothing would count; want 1 or more for input or output")
		}
	}
	for _, model := range sorted(u.Prices) {
		c.rates(key+".prices."+model, u.Prices[model])
		config.Prices[model] = tokens.Rates(u.Prices[model])
	}
	c.counted(key, u)
	_, other := u.Prices[tokens.AnyModel]
	if len(u.Prices) > 0 && !other && u.Preset == "" && len(format.Model) == 0 {
		c.mistake(key+".prices", "no place is set for the name of the model, so no request has a price; "+
			"want model: /model, or a price with the name %s", tokens.AnyModel)
	}
	if mistakes != len(c.errs) {
		return nil
	}
	rules, err := tokens.New(config)
	if err != nil {
		c.mistake(key, "%v", err)
	}
	return rules
}

// places checks a list of places in requests or, if responses is true, in responses; see
// [TokenUsage].
func (c *compiler) places(key string, places []string, responses bool) {
	for i, place := range places {
		switch err := tokens.CheckPointer(place); {
		case place == "":
			c.mistake(at(key, i, places), "is empty; want a JSON pointer such as /usage/output_tokens")
		case strings.HasPrefix(place, "/") && err != nil:
			c.mistake(at(key, i, places), "%q: %v", place, err)
		case strings.HasPrefix(place, "/"):
		case !responses:
			c.mistake(at(key, i, places), "%q: %v", place, err)
		case !syntax.IsToken(place) || strings.Contains(place, "_") || !unicode.IsLetter(rune(place[0])):
			c.mistake(at(key, i, places), "%q is neither a JSON pointer nor a header field; "+
				"want something like /usage/output_tokens or X-Output-Tokens", place)
		}
		if slices.Contains(places[:i], place) {
			c.mistake(at(key, i, places), "%q is listed twice; list it once", place)
		}
	}
}

func (c *compiler) rates(key string, r Rates) {
	c.inUnits(key+".input", r.Input)
	c.inUnits(key+".output", r.Output)
	c.inUnits(key+".cached", r.Cached)
}

// counted checks that the set has a budget, and that u has prices if and only if a budget counts
// prices.
func (c *compiler) counted(key string, u *TokenUsage) {
	var given []string // keys of the budgets that count prices
	budgets := 0
	c.budgetNames(func(key, name string) {
		budgets++
		if name == tokens.PriceName {
			given = append(given, key)
		}
	})
	counted := given != nil
	switch {
	case budgets == 0:
		c.mistake(key, "no budget counts tokens; want one in this policy, as in budget: \"tokens: 100000/1m\"")
	case counted && len(u.Prices) == 0:
		c.mistakeGiven(given, key+".prices", "a budget with the name %q counts prices, and there are none; "+
			"want some, as in gpt-4o: {input: 2500000, output: 10000000}, per million tokens", tokens.PriceName)
	case !counted && len(u.Prices) > 0:
		c.mistake(key+".prices", "no budget counts prices; want one with the name %q, as in price: 50000000/month",
			tokens.PriceName)
	}
}
