module github.com/stint-limiter/stint

go 1.26

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.47.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
