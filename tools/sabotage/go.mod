module github.com/stint-limiter/stint/tools/sabotage

go 1.26.0
