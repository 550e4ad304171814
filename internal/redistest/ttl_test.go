package redistest

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

func TestKeysWithoutTTL(t *testing.T) {
	s, dead := Start(t), Start(t)
	dead.Kill()
	replica := Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port()))
	var commands [][]string
	for i := range 2500 {
		commands = append(commands, []string{"SET", "stint:{" + strconv.Itoa(i) + "}", "x", "EX", "1000"})
	}
	commands = append(commands, []string{"SET", "theirs", "x"}, []string{"HSET", "xstint:", "a", "b"})
	testkit.Must(s.pipeline(commands...))(t)
	await(t, "the replica has them", func() error { return inStep(s, replica) })
	if got := KeysWithoutTTL(t, s, dead, replica); len(got) != 0 {
		t.Errorf("got %q, want none", got)
	}
	want := []string{"stint:", "stint:{\r\n}:x", "stint:{hash}"}
	s.CLI(t, "SET", want[1], "x")
	s.CLI(t, "HSET", want[2], "a", "b")
	s.CLI(t, "SADD", want[0], "a")
	await(t, "the replica has them", func() error { return inStep(s, replica) })
	if got := KeysWithoutTTL(t, s, dead, replica); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
