package outbound

import "time"

// Observer is told what happens to calls. Its methods are called from many goroutines, on
// the way of calls, and must neither block nor call back into the registry. API names come
// from the configuration, never from requests: they are fit for labels.
type Observer interface {
	// Called follows every [Client.Wait]: for how long it waited, zero if it did not have
	// to, and the error if the call may not be made. A wait that ended in an error was one too.
	Called(api string, wait time.Duration, err error)
	// CooledDown follows the beginning of a pause that the API imposed on this process. One
	// that is prolonged while it lasts is not told again.
	CooledDown(api string, d time.Duration)
	// Told follows every attempt to tell the other processes of a pause, through the store.
	Told(api string, err error)
}

// silent is for those who have no observer.
type silent struct{}

func (silent) Called(string, time.Duration, error) {}
func (silent) CooledDown(string, time.Duration)    {}
func (silent) Told(string, error)                  {}
