package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Duration is a time.Duration that is a number of seconds in JSON.
type Duration time.Duration

// String returns the form of time.Duration.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes seconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON reads seconds.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &seconds); err != nil {
		return fmt.Errorf("simulate: a duration: %w", err)
	}
	*d = Duration(math.Round(seconds * float64(time.Second)))
	return nil
}
