package outbound

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// presets are APIs with the limits that their owners publish, by name.
func presets() []API {
	return []API{
		{Name: "igdb", Limits: []stint.Limit{stint.PerSecond(4)}},
		{Name: "musicbrainz", Limits: []stint.Limit{stint.PerSecond(1)}},
		{Name: "spotify", Limits: []stint.Limit{stint.PerMinute(180)}},
		{Name: "tmdb", Limits: []stint.Limit{stint.Per(40, 10*time.Second)}},
	}
}

// Preset returns an API that is known by name, for the caller to adapt: igdb with 4/1s,
// musicbrainz with 1/1s, spotify with 180/1m, tmdb with 40/10s. Calls to it wait.
func Preset(name string) (API, bool) {
	all := presets()
	i := slices.IndexFunc(all, func(a API) bool { return a.Name == name })
	if i < 0 {
		return API{}, false
	}
	return all[i], true
}

// PresetNames returns the names that [Preset] knows, in order.
func PresetNames() []string {
	var names []string
	for _, a := range presets() {
		names = append(names, a.Name)
	}
	return names
}
