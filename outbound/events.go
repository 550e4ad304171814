package outbound

import "time"

// Call is the event of a [Client.Wait]. Names of APIs come from the configuration, never from
// requests: they are fit for labels.
type Call struct {
	API  string
	Wait time.Duration // how long it waited, in vain or not; zero if it did not have to
	Err  error         // why the call may not be made
}

// Cooldown is the event of a pause that the API imposed on this process. One that is prolonged
// while it lasts is not reported again.
type Cooldown struct {
	API string
	For time.Duration
}
