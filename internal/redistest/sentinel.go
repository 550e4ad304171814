package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Sentinel is a master and a replica with three sentinels or, with TLS, a master with one sentinel.
// A sentinel considers the master down after half a second without a reply. If two sentinels agree,
// they fail over within a few seconds.
type Sentinel struct {
	MasterName string
	Master     *Server // as started; a failover does not change it
	Replica    *Server // as started; nil with TLS
	Sentinels  []*Server
}

// StartSentinel starts the servers and waits until every sentinel knows the replica and the other
// sentinels, so that a failover can happen at once.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{MasterName: "stint", Master: Start(t)}
	s.Replica = Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Master.Port()))
	// A sentinel asks a master for its replicas when it first connects to the master, and then only
	// every ten seconds.
	await(t, "the replica is online", func() error { return oneReplicaOnline(s.Master) })
	for range 3 {
		s.Sentinels = append(s.Sentinels, s.startSentinel(t))
	}
	await(t, "the sentinels agree", s.agreed)
	return s
}

// StartTLSSentinel starts a master without replicas and one sentinel that monitors it. Both use
// only TLS, with the master's certificate, and require a client certificate.
func StartTLSSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{MasterName: "stint",
		Master: StartTLS(t, "--tls-replication", "yes", "--tls-auth-clients", "yes")}
	cert, key := s.Master.CertificateFiles()
	s.Sentinels = []*Server{s.startSentinel(t, "port 0", "tls-replication yes", "tls-auth-clients yes",
		fmt.Sprintf("tls-ca-cert-file %q", cert), fmt.Sprintf("tls-cert-file %q", cert),
		fmt.Sprintf("tls-key-file %q", key))}
	return s
}

// startSentinel starts a sentinel with additional configuration lines. The sentinel uses TLS if the
// master does.
func (s *Sentinel) startSentinel(t testing.TB, more ...string) *Server {
	srv := newServer(t)
	srv.portFlag, srv.tls = s.Master.portFlag, s.Master.tls
	conf := filepath.Join(srv.dir, "sentinel.conf")
	lines := []string{
		"bind 127.0.0.1",
		fmt.Sprintf("dir %q", srv.dir),
		fmt.Sprintf("logfile %q", srv.logFile()),
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", s.MasterName, s.Master.Port()),
		fmt.Sprintf("sentinel down-after-milliseconds %s 500", s.MasterName),
		fmt.Sprintf("sentinel failover-timeout %s 5000", s.MasterName),
	}
	lines = append(append(lines, more...), "")
	// A sentinel stores what it learns in this file.
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	srv.conf = conf
	srv.args = []string{"--sentinel"}
	srv.mustStart(t)
	return srv
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string { return addrs(s.Sentinels) }

// agreed returns nil if every sentinel sees a healthy master, a replica that has caught up and two
// other sentinels.
func (s *Sentinel) agreed() error {
	for _, sentinel := range s.Sentinels {
		reply, err := sentinel.Do("SENTINEL", "MASTER", s.MasterName)
		if err != nil {
			return err
		}
		master := fields(reply)
		if master["flags"] != "master" || master["num-slaves"] != "1" || master["num-other-sentinels"] != "2" {
			return fmt.Errorf("sentinel %s sees flags %s, %s replicas, %s other sentinels", sentinel.Addr(),
				master["flags"], master["num-slaves"], master["num-other-sentinels"])
		}
		if reply, err = sentinel.Do("SENTINEL", "REPLICAS", s.MasterName); err != nil {
			return err
		}
		if replica := fields(reply); replica["flags"] != "slave" || replica["master-link-status"] != "ok" {
			return fmt.Errorf("sentinel %s sees a replica with flags %s, link %s", sentinel.Addr(),
				replica["flags"], replica["master-link-status"])
		}
		if _, err := sentinel.Do("SENTINEL", "CKQUORUM", s.MasterName); err != nil {
			return err
		}
	}
	return nil
}

func addrs(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, srv := range servers {
		list[i] = srv.Addr()
	}
	return list
}

// fields parses a flat reply of alternating names and values.
func fields(reply string) map[string]string {
	lines := strings.Split(reply, "\n")
	m := make(map[string]string, len(lines)/2)
	for i := 0; i+1 < len(lines); i += 2 {
		m[lines[i]] = lines[i+1]
	}
	return m
}

func isMaster(srv *Server) bool {
	role, err := srv.Do("ROLE")
	return err == nil && strings.HasPrefix(role, "master")
}

// oneReplicaOnline returns nil if srv has exactly one replica and it has caught up.
func oneReplicaOnline(srv *Server) error {
	info, err := srv.Do("INFO", "replication")
	if err != nil {
		return err
	}
	if !strings.Contains(info, "connected_slaves:1\r\n") || !strings.Contains(info, "state=online") {
		return fmt.Errorf("%s has no replica in sync", srv.Addr())
	}
	return nil
}
