package simulate_test

import (
	"os"
	"testing"

	"github.com/stint-limiter/stint/internal/loggen"
)

func generate(t testing.TB, name string, o loggen.Options) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := loggen.Generate(file, o); err != nil {
		t.Fatal(err)
	}
}
