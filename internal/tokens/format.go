package tokens

import (
	"maps"
	"slices"
	"strings"
)

// Format says where the requests and responses of an API contain token counts and other values.
// Both are JSON, and JSON pointers identify the values. For responses, an entry that does not begin
// with a slash is the name of a header field or a trailer.
type Format struct {
	// Max lists the members of a request that limit the tokens of one answer. Choices lists those
	// that set the number of answers.
	Max, Choices []string
	// Model lists the members of a request that name the model. If the request has none of them,
	// the model is the path segment after the one named ModelAfter, up to a colon. If ModelAfter is
	// "", the path is not used.
	Model      []string
	ModelAfter string
	// Input, Output and Cached list the members of a response that count tokens. If a member occurs
	// several times, as in a stream, its last value is used. Members whose pointers end in the same
	// name are taken to contain the same number, which is counted once; numbers with different
	// names are added up. The name prompt_tokens counts as input_tokens, and completion_tokens as
	// output_tokens, because OpenAI's APIs use both. Cached tokens are a part of Input.
	Input, Output, Cached []string
}

// Presets returns the formats of well-known APIs, by name. They also fit compatible APIs.
func Presets() map[string]Format {
	// Anthropic sends the number of prompt tokens in the first event of a stream, and the number of
	// generated tokens at the end. The first event also has a number of generated tokens, but it is
	// only a placeholder, and is not read.
	anthropic := func(names ...string) (pointers []string) {
		for _, name := range names {
			pointers = append(pointers, "/message/usage/"+name, "/usage/"+name)
		}
		return pointers
	}
	return map[string]Format{
		// Chat completions, completions, embeddings and responses.
		"openai": {
			Max:     []string{"/max_tokens", "/max_completion_tokens", "/max_output_tokens"},
			Choices: []string{"/n"},
			Model:   []string{"/model"},
			// Azure puts the model in the path.
			ModelAfter: "deployments",
			Input:      []string{"/usage/prompt_tokens", "/usage/input_tokens", "/response/usage/input_tokens"},
			Output:     []string{"/usage/completion_tokens", "/usage/output_tokens", "/response/usage/output_tokens"},
			Cached: []string{"/usage/prompt_tokens_details/cached_tokens",
				"/usage/input_tokens_details/cached_tokens", "/response/usage/input_tokens_details/cached_tokens"},
		},
		"anthropic": {
			Max:    []string{"/max_tokens"},
			Model:  []string{"/model"},
			Input:  anthropic("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
			Output: []string{"/usage/output_tokens"},
			Cached: anthropic("cache_read_input_tokens"),
		},
		"gemini": {
			Max: []string{"/generationConfig/maxOutputTokens", "/generation_config/max_output_tokens"},
			Choices: []string{"/generationConfig/candidateCount",
				"/generation_config/candidate_count"},
			ModelAfter: "models",
			Input:      []string{"/usageMetadata/promptTokenCount", "/usageMetadata/toolUsePromptTokenCount"},
			Output:     []string{"/usageMetadata/candidatesTokenCount", "/usageMetadata/thoughtsTokenCount"},
			Cached:     []string{"/usageMetadata/cachedContentTokenCount"},
		},
	}
}

// Names returns the sorted names of the presets.
func Names() []string { return slices.Sorted(maps.Keys(Presets())) }

// modelIn returns the model in a path: the text between the segment named by the argument after and
// the next slash or colon. It returns "" if the path has no such segment, or if the argument is "".
func modelIn(path, after string) string {
	if after == "" {
		return ""
	}
	_, rest, _ := strings.Cut("/"+path, "/"+after+"/")
	segment, _, _ := strings.Cut(rest, "/")
	name, _, _ := strings.Cut(segment, ":")
	return name
}

// lastName returns the name of the number that place refers to. place is a JSON pointer, which ends
// in that name, or the name of a header field. Places with the same name refer to the same number.
func lastName(place string) string {
	name := strings.ToLower(place[strings.LastIndexByte(place, '/')+1:])
	if same, ok := sameNames[name]; ok {
		return same
	}
	return name
}

// sameNames maps names to the names that other OpenAI APIs use for the same numbers. Some servers
// send both in one response.
var sameNames = map[string]string{"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
