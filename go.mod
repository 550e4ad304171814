module github.com/stint-limiter/stint

go 1.26
