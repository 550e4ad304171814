package process

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

func TestRedis(t *testing.T) {
	rack := NewRack()
	redis := rack.Redis(t.Context())
	conn, err := net.Dial("tcp", redis.Address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if size := rack.servers[0].Resident(); size < 1<<20 {
		t.Errorf("got %d bytes; want a megabyte at least", size)
	}
	rack.Stop()
	if conn, err := net.Dial("tcp", redis.Address); err == nil {
		conn.Close()
		t.Error("it is still there")
	}
	if _, err := os.Stat(rack.dir); !os.IsNotExist(err) {
		t.Errorf("got %v, want no directory", err)
	}
}

func TestStartTellsWhy(t *testing.T) {
	rack := NewRack()
	defer rack.Stop()
	address := FreeAddress()
	err := contest.Catch(func() {
		rack.Start(t.Context(), address, []string{"WHY=no luck"}, "sh", "-c", `echo "$WHY"; exit 3`)
	})
	if err == nil || !strings.Contains(err.Error(), "sh exited: no luck") {
		t.Errorf("got %v, want what the program printed", err)
	}
	if contest.Catch(func() { rack.Start(t.Context(), address, nil, "no-such-program") }) == nil {
		t.Error("got no error")
	}
}
