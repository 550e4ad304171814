package process

import (
	"net"
	"os"
	"strings"
	"testing"
)

func newRack(t *testing.T) *Rack {
	t.Helper()
	rack, err := NewRack()
	if err != nil {
		t.Fatal(err)
	}
	return rack
}

func TestRedis(t *testing.T) {
	rack := newRack(t)
	redis, err := rack.Redis(t.Context())
	if err != nil {
		rack.Stop()
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", redis.Address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if size, err := rack.servers[0].Resident(); err != nil || size < 1<<20 {
		t.Errorf("got %d bytes, %v; want a megabyte at least", size, err)
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
	rack := newRack(t)
	defer rack.Stop()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, err = rack.Start(t.Context(), address, []string{"WHY=no luck"}, "sh", "-c", `echo "$WHY"; exit 3`)
	if err == nil || !strings.Contains(err.Error(), "sh has ended: no luck") {
		t.Errorf("got %v, want what the program printed", err)
	}
	if _, err := rack.Start(t.Context(), address, nil, "no-such-program"); err == nil {
		t.Error("got no error")
	}
}
