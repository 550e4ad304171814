package tokens

import (
	"maps"
	"slices"
	"strings"
)

// Format says where requests and responses of an API have their numbers. Requests and responses are
// JSON, and what is read is named by JSON pointers. In responses, what does not begin with a slash
// is the name of a header field or a trailer.
type Format struct {
	// Max are the members of a request that bound how many tokens are generated, and Choices those
	// that say how many answers there are to be, each of that length.
	Max, Choices []string
	// Model are the members of a request that name the model. If none does, the segment of the path
	// after the one with the name ModelAfter does, up to a colon; "" is none.
	Model      []string
	ModelAfter string
	// Input, Output and Cached are the members of a response that count tokens. The last value of
	// each counts. Those with the same last name are one number in different places; those with
	// different names are added up. OpenAI's prompt_tokens and input_tokens are the same name, and
	// so are completion_tokens and output_tokens. Cached is a part of Input.
	Input, Output, Cached []string
}

// Presets returns the formats of well-known APIs by name, and of what is compatible with them.
func Presets() map[string]Format {
	// Anthropic has the tokens of the prompt in the first event of a stream, and those that were
	// generated at the end. What the first event says of these is no count, but a 1.
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
			// Azure names it in the path.
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

// Names returns the names of the presets in order.
func Names() []string { return slices.Sorted(maps.Keys(Presets())) }

// modelIn returns the model that a path names after a segment; "" if it names none.
func modelIn(path, after string) string {
	if after == "" {
		return ""
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments[:len(segments)-1] {
		if segment == after {
			name, _, _ := strings.Cut(segments[i+1], ":")
			return name
		}
	}
	return ""
}

// lastName returns what tells numbers apart: the last name of a pointer, or the name of a field.
func lastName(place string) string {
	name := strings.ToLower(place[strings.LastIndexByte(place, '/')+1:])
	if same, ok := sameNames[name]; ok {
		return same
	}
	return name
}

// sameNames are names of one number in different APIs of OpenAI: some servers have both in one
// response.
var sameNames = map[string]string{"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
