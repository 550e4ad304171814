package outbound

import (
	"time"

	"github.com/stint-limiter/stint"
)

// Presets returns APIs by name, with the limits that their owners publish, for the caller to adapt:
// igdb with 4/1s, musicbrainz with 1/1s, spotify with 180/1m, tmdb with 40/10s. The RCSB PDB
// publishes no figure but asks for a few requests per second: rcsb has 3/1s. Calls to them wait.
func Presets() map[string]API {
	presets := map[string]API{}
	for name, limit := range map[string]stint.Limit{
		"igdb":        stint.PerSecond(4),
		"musicbrainz": stint.PerSecond(1),
		// https://www.rcsb.org/docs/programmatic-access/web-apis-overview: start with a few
		// requests per second, and slow down on a 429. Downloads from files.wwpdb.org are not
		// limited.
		"rcsb":    stint.PerSecond(3),
		"spotify": stint.PerMinute(180),
		"tmdb":    stint.Per(40, 10*time.Second),
	} {
		presets[name] = API{Name: name, Limits: []stint.Limit{limit}}
	}
	return presets
}
