package goredis_test

import (
	"os"
	"testing"

	"github.com/stint-limiter/stint/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
