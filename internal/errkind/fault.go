package errkind

import (
	"errors"
	"net"
	"strings"

	"github.com/stint-limiter/stint"
)

// Fault describes a problem that makes calls to a Redis server fail, and how an operator can fix
// it. The kinds of [stint.StoreError] describe the outcome of a call. A fault describes the cause
// that the results of calls and pings indicate. The dashboard, the alerts, the log, "stint doctor"
// and the documentation use these texts.
type Fault struct {
	// Name is the name of the fault in logs, in JSON and in the documentation.
	Name string
	// Is is a predicate whose subject is the store, such as "is out of memory".
	Is string
	// Why lists the usual causes, and Fix describes the remedy. Both are sentences.
	Why, Fix string
}

// The names of faults. A fault that is also a kind of failure has the name of that kind.
const (
	Unreachable = string(stint.KindUnreachable)
	Silent      = "silent"
	Slow        = "slow"
	Auth        = string(stint.KindAuth)
	Full        = string(stint.KindFull)
	Script      = "script"
	Node        = "node"
	ReadOnly    = string(stint.KindReadOnly)
	Loading     = "loading"
	Disk        = "disk"
	Other       = "other"
)

// Faults lists all faults, the most frequent first. The last one covers everything else.
var Faults = [...]Fault{
	{
		Unreachable, "cannot be reached",
		"Connections are refused or lost: it is not running, was killed, or the network is down.",
		"Start it. Its log, or the kernel's (dmesg), shows why it stopped. If it is running, check the address and the firewall: redis-cli PING from this host.",
	},
	{
		Silent, "accepts connections but does not answer",
		"Its process is stopped, swaps, hangs on its disk or gets no CPU, or another client runs a long command.",
		"Look at its process on its host (ps: T is stopped, D waits for a disk), continue it (kill -CONT) or restart it, or fail over to a replica. If the cause is a long script, Redis reports it after 5 s: then see the fault script.",
	},
	{
		Slow, "answers too late",
		"Pings are answered, but calls take longer than the time budget: Redis, its host or this process lacks CPU, or the network is slow.",
		"Measure with redis-cli --latency from this host, and see SLOWLOG GET and the CPU of both hosts. A Redis server in another region needs a larger failure.budget.",
	},
	{
		Auth, "rejects stint's password or permissions",
		"The password or the ACL was changed, or the URL has an old one. Waiting does not help.",
		"Correct the user and the password in the URL, or give the user its permissions back: stint doctor --store URL lists what is missing.",
	},
	{
		Full, "is out of memory",
		"It has reached maxmemory and rejects every write. Waiting rarely helps.",
		"Raise it now: redis-cli CONFIG SET maxmemory, and the same in redis.conf. Then find what fills it: redis-cli --bigkeys.",
	},
	{
		Script, "is blocked by a script",
		"Another client runs a script or a function that does not end. Redis executes nothing else meanwhile.",
		"End it: redis-cli SCRIPT KILL, or FUNCTION KILL. If Redis answers UNKILLABLE, the script has written: only SHUTDOWN NOSAVE ends it.",
	},
	{
		Node, "has lost a node of its Cluster",
		"A master does not answer, and no replica has taken over. Subjects in its slots are decided without Redis; if the Cluster requires full coverage, all are.",
		"Start the node, or promote a replica: redis-cli CLUSTER FAILOVER TAKEOVER on it. redis-cli CLUSTER NODES shows the state.",
	},
	{
		ReadOnly, "is a replica and accepts no writes",
		"The address belongs to a replica, for instance after a failover.",
		"Use the address of the master, or Sentinel: redis://sentinel:26379?master_set=NAME.",
	},
	{
		Loading, "is loading its data",
		"It was restarted, or is being synchronized with its master. This ends without intervention.",
		"Wait: redis-cli INFO persistence shows how long (loading_eta_seconds).",
	},
	{
		Disk, "refuses writes because it cannot save them",
		"A snapshot or the append-only file cannot be written, or too few replicas are in sync.",
		"Free space on its disk and check its log: redis-cli INFO persistence. For NOREPLICAS, bring the replicas back.",
	},
	{
		Other, "fails calls",
		"The last error has the details.",
		"Run stint doctor --store URL.",
	},
}

// FaultOf returns the fault with the given name, or Other if the name is unknown.
func FaultOf(name string) Fault {
	for _, f := range Faults {
		if f.Name == name {
			return f
		}
	}
	return Faults[len(Faults)-1]
}

// NodeError is the failure of a call to one node of a Cluster.
type NodeError struct{ Err error }

func (e *NodeError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// Diagnose returns the name of the fault that err indicates. The argument `answers` reports whether
// the store answers pings. If a call was not answered in time, the fault is [Unreachable] if no
// connection was made, [Slow] if the store answers pings, and [Silent] otherwise.
func Diagnose(err error, answers bool) string {
	var dial *net.OpError
	var node *NodeError
	switch kind := Of(err); {
	case kind == stint.KindTimeout && errors.As(err, &dial) && dial.Op == "dial":
		return Unreachable
	case kind == stint.KindUnreachable && errors.As(err, &node):
		return Node
	case kind == stint.KindTimeout && answers:
		return Slow
	case kind == stint.KindTimeout:
		return Silent
	case kind == stint.KindBusy:
		_, fault := OfReply(err.Error())
		return fault
	default:
		return FaultOf(kind.String()).Name
	}
}

// words lists the first words of errors that Redis returns. If the error comes from a script or
// through a proxy, other text may precede the word.
var words = []struct {
	word  string
	kind  stint.StoreErrorKind
	fault string
}{
	{"NOAUTH", stint.KindAuth, Auth},
	{"WRONGPASS", stint.KindAuth, Auth},
	{"NOPERM", stint.KindAuth, Auth},
	{"OOM", stint.KindFull, Full},
	{"READONLY", stint.KindReadOnly, ReadOnly},
	{"LOADING", stint.KindBusy, Loading},
	{"BUSY", stint.KindBusy, Script},
	{"CLUSTERDOWN", stint.KindBusy, Node},
	{"MASTERDOWN", stint.KindBusy, Loading},
	{"TRYAGAIN", stint.KindMigrating, Other},
	{"NOREPLICAS", stint.KindBusy, Disk},
	{"MISCONF", stint.KindBusy, Disk},
	{ClockWord, stint.KindBusy, Other},
}

// ClockWord is the first word of the error that stint's own scripts return if the time of the
// server's clock is not within the calendar periods that they received.
const ClockWord = "CLOCK"

// OfReply returns the kind and the fault of an error, given the text that Redis replied.
func OfReply(text string) (kind stint.StoreErrorKind, fault string) {
	for _, w := range words {
		if strings.HasPrefix(text, w.word) || strings.Contains(text, " "+w.word+" ") ||
			strings.Contains(text, "-"+w.word+" ") {
			return w.kind, w.fault
		}
	}
	// In Redis 6.2 and 7, a NOPERM error from a script has one of these texts.
	for _, part := range []string{"The user executing the script can't run", "ACL failure in script"} {
		if strings.Contains(text, part) {
			return stint.KindAuth, Auth
		}
	}
	return stint.KindOther, Other
}
