package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// report is a server's reply to INFO.
type report struct {
	addr, text string
}

// field returns a field of the report, or "" if it is missing.
func (r report) field(name string) string {
	for line := range strings.Lines(r.text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (r report) number(name string) int64 {
	n, _ := strconv.ParseInt(r.field(name), 10, 64)
	return n
}

// seconds returns the value of a field in seconds, or 0 if the field is missing or invalid.
func (r report) seconds(name string) time.Duration {
	n, _ := strconv.ParseFloat(r.field(name), 64)
	return time.Duration(n * float64(time.Second))
}

// leastVersion is the first version of Redis that can run all scripts of the store.
const leastVersion = "6.2"

func (r report) tooOld() error {
	if v := r.field("redis_version"); older(v, leastVersion) {
		return fmt.Errorf("%s runs Redis %s; want %s or later, or Valkey", r.addr, v, leastVersion)
	}
	return nil
}

// older reports whether version a is below version b. It compares their numbers from the left, up
// to the first part that is not a number.
func older(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		m, errM := strconv.Atoi(as[i])
		n, errN := strconv.Atoi(bs[i])
		if errM != nil || errN != nil || m != n {
			return errM == nil && errN == nil && m < n
		}
	}
	return false
}

// evicting is the warning about a server that evicts keys. It follows the server's name.
const evicting = "may evict limits before they expire, which lets subjects exceed them; " +
	"set maxmemory-policy to noeviction"

// evicts reports whether a full server evicts keys, and by which policy.
func (r report) evicts() (policy string, yes bool) {
	policy = r.field("maxmemory_policy")
	return policy, policy != "" && policy != "noeviction"
}

// warnings returns sentences that describe problems of the server and their fixes.
func (r report) warnings() []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(r.addr+" "+format, args...)) }
	if err := r.tooOld(); err != nil {
		all = append(all, err.Error())
	}
	if r.field("role") == "slave" {
		warn("is a replica and accepts no charges; want the address of its master, or of Sentinel, which follows the master")
	}
	if policy, evicts := r.evicts(); evicts {
		warn("%s (now %s)", evicting, policy)
	}
	if n := r.number("evicted_keys"); n > 0 {
		warn("has evicted %d keys since it started, so usage of limits was forgotten; give it more memory", n)
	}
	used, most, host := r.number("used_memory"), r.number("maxmemory"), r.number("total_system_memory")
	switch {
	case most > 0 && used > most/10*9:
		warn("uses %d%% of its maxmemory; once it is full, it refuses charges, and the failure policy decides",
			used/(most/100+1))
	case most == 0 && host > 0 && used > host/2:
		warn("uses more than half of its host's memory and has no maxmemory; " +
			"set one, so that it refuses charges before the host kills it")
	}
	return all
}
