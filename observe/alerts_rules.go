package observe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/errkind"
)

// These constants are the severities of alerts. A page needs attention at once. A ticket can wait
// until the morning.
const (
	severityPage   = "page"
	severityTicket = "ticket"
)

const (
	// alertWindow is the period over which shares and quantiles are computed.
	alertWindow = 5 * time.Minute
	// alertFloor is the smallest number of decisions or calls for which shares and quantiles are
	// computed. With fewer, a single decision or call would change the result too much.
	alertFloor = 100
	// lateWindow is the period in which a call must have failed for the alert ScriptErrors. Older
	// failures alone do not raise the alert, because their cause is probably gone.
	lateWindow = 30 * time.Second
	// alertFor is the default of AlertConfig.For.
	alertFor = time.Minute

	// The alert Spike compares the last minute (spikeWindow) with the rest of the last hour
	// (spikePast). It needs at least spikeFloor decisions in that minute. It also needs a history
	// that is as long as spikeHistory, or ten times as long as AlertConfig.For if that is set.
	spikeWindow  = time.Minute
	spikePast    = time.Hour
	spikeFloor   = 600
	spikeHistory = 10 * time.Minute
)

// alertRule defines when an alert fires. The same rules are in deploy/prometheus/stint.rules.yaml.
type alertRule struct {
	name, severity, unit string
	threshold            float64
	// lasts marks rules whose value is the time for which the condition has held. Value and
	// threshold are in seconds.
	lasts bool
	// below marks conditions that hold while the value is below the threshold. A value of 0 means
	// that there is nothing to compare.
	below bool
	// waits reports whether the condition must hold for AlertConfig.For before the alert fires.
	// stays reports whether the condition must be gone for AlertConfig.For before the alert ends.
	waits, stays bool
	// summary may contain a formatting verb for the threshold with its unit. If pending is not "",
	// it replaces summary while the alert is pending, because summary would not be true yet.
	// pending contains verbs for the value and the threshold.
	summary, pending string
	// value returns the value to compare with the threshold. detail returns text to append to the
	// summary; it may be nil.
	value  func(*readings) float64
	detail func(*readings) string
}

var alertRules = [...]alertRule{
	{
		name: "BlockedShare", severity: severityTicket, unit: "share", threshold: 0.10, waits: true, stays: true,
		summary: "More than %s of the decisions of the last 5 minutes were denials. Check which subjects are denied and by which policy: is it an attack, or a limit that is too low?",
		value:   func(r *readings) float64 { return shareOf(r.lately.Denied, r.lately.decisions()) },
		detail:  (*readings).change,
	},
	{
		name: "LimiterSlow", severity: severityPage, unit: "ms", threshold: 50, waits: true, stays: true,
		summary: "One decision in a hundred takes longer than %s. Check whether the store is slow; if it is not, this process has too little CPU.",
		value:   func(r *readings) float64 { return p99(&r.decisions) },
	},
	{
		name: "ScriptSlow", severity: severityTicket, unit: "ms", threshold: 10, waits: true, stays: true,
		summary: "One call to the store in a hundred takes longer than %s. Check the network latency and what else Redis is doing (SLOWLOG, INFO).",
		value:   func(r *readings) float64 { return p99(&r.storeCalls) },
	},
	{
		name: "ScriptErrors", severity: severityPage, unit: "share", threshold: 0.01, waits: true, stays: true,
		summary: "More than %s of the calls to the store fail, while others succeed.",
		value:   (*readings).scriptErrors,
		detail:  (*readings).lastError,
	},
	{
		name: "StoreDown", severity: severityPage, unit: "s", threshold: 60, lasts: true,
		summary: "The store has been down for more than %s, and decisions are made according to the failure mode.",
		pending: "The store has been down for %s, and decisions are made according to the failure mode. The alert fires after %s.",
		value:   (*readings).secondsDown,
		detail:  (*readings).fault,
	},
	{
		name: "Spike", severity: severityTicket, unit: "times", threshold: 5, stays: true,
		summary: "There were more than %s as many decisions in the last minute as in an average minute of the hour before. Check the tiers and the top offenders: where do the requests come from?",
		value:   (*readings).spike,
		detail:  func(r *readings) string { return " " + r.surge.Text },
	},
	{
		name: "DenialJump", severity: severityTicket, unit: "times", threshold: 5, stays: true,
		summary: "The share of denials in the last minute, among all decisions or those of a tier, is more than %s the share before. Check the top offenders and the denials by policy: is it an attack, a broken client, or a limit that was just changed?",
		value:   func(r *readings) float64 { return r.jump.times },
		detail:  func(r *readings) string { return r.jump.text() + r.change() },
	},
	{
		name: "ConfigRefused", severity: severityTicket, unit: "count",
		summary: "Changed configuration files were refused; the previous configuration stays in force. See the log for the errors, or run stint config check.",
		value:   func(r *readings) float64 { return float64(len(r.refused)) },
		detail:  func(r *readings) string { return " Refused: " + strings.Join(r.refused, ", ") + "." },
	},
	{
		name: "LogDropped", severity: severityTicket, unit: "count", stays: true,
		summary: "Log records are dropped: standard error is not read in time, or cannot be written. Requests are served as usual. Check the program that collects the log of this process, and whether its disk is full.",
		value:   func(r *readings) float64 { return float64(r.dropped) },
	},
	{
		name: "EvictingRedis", severity: severityTicket, unit: "count",
		summary: "Redis evicts keys when its memory is full, and with them the usage of subjects. Set maxmemory-policy to noeviction, and check how much memory is left.",
		value:   (*readings).evicting,
	},
	{
		name: "RedisMemory", severity: severityTicket, unit: "share", threshold: 0.9, waits: true, stays: true,
		summary: "Redis uses more than %s of its maxmemory. When its memory is full, it rejects writes or evicts keys. Check what uses the memory, and raise maxmemory.",
		value:   (*readings).memoryShare,
	},
	{
		name: "RedisCPU", severity: severityTicket, unit: "share", threshold: 0.8, waits: true, stays: true,
		summary: "The main thread of Redis is busy for more than %s of the time, and only that thread executes commands. Check what else Redis is doing, and reduce its load with leased limits or a Cluster.",
		value:   func(r *readings) float64 { return r.redis().CPUShare },
	},
	{
		name: "ProcessSilent", severity: severityPage, unit: "count",
		summary: "Processes that share the store have stopped reporting: they hang, were killed, or cannot reach the store. Check whether they run and answer.",
		value:   func(r *readings) float64 { return float64(len(r.silent())) },
		detail:  func(r *readings) string { return " Silent: " + strings.Join(r.silent(), ", ") + "." },
	},
	{
		name: "CertificateExpires", severity: severityTicket, unit: "days", threshold: 14, below: true,
		summary: "A certificate expires in less than %s, or has expired. Clients refuse to connect once it has expired. Replace its file; stint reloads it when it changes.",
		value:   (*readings).daysLeft,
		detail: func(r *readings) string {
			return fmt.Sprintf(" The %s expires on %s.", r.expiring, r.expires.UTC().Format(time.RFC3339))
		},
	},
	{
		name: "ConfigDiffers", severity: severityTicket, unit: "count", waits: true,
		summary: "Processes that share the store have different configurations, and decide by different rules. Check which configuration is out of date: was the new one not rolled out there, or was it refused?",
		value:   (*readings).differing,
		detail:  func(r *readings) string { return " " + r.configs() },
	},
}

// readings holds the values that the alert rules evaluate.
type readings struct {
	now                   time.Time
	lately                Point // the last five minutes
	justNow               Point // the last 30 seconds
	decisions, storeCalls buckets
	surge                 Surge
	store                 *StoreHealth
	jump                  jump // the largest jump in the share of denials
	changes               []Change
	processes             []Process
	refused               []string
	expiring              string // the source with the certificate that expires first; "" if none expires
	expires               time.Time
	// dropped is at first the number of log records dropped since the start. Then [alerts.evaluate]
	// subtracts the records dropped before the last second.
	dropped int64
}

func read(now time.Time, h *history, t *Tick, known time.Duration) *readings {
	r := &readings{now: now, store: &t.Store, changes: t.Changes, processes: t.Processes}
	r.lately, _ = h.sum(alertWindow)
	r.justNow, _ = h.sum(lateWindow)
	r.decisions, r.storeCalls = h.during(alertWindow)
	minute, _ := h.sum(spikeWindow)
	before, beforeSeconds := h.sumBefore(spikeWindow, spikePast)
	all := jump{now: minute.Counts, before: before.Counts, seconds: beforeSeconds}
	r.jump = largestJump(h.tiers(spikeWindow), all, known)
	return r
}

// shareOf returns part / all, or 0 if the total is too small for a meaningful share.
func shareOf(part, all int64) float64 {
	if all < alertFloor {
		return 0
	}
	return float64(part) / float64(all)
}

// p99 returns the 99th percentile in milliseconds. It returns 0 if there are too few durations.
func p99(b *buckets) float64 {
	if b.total() < alertFloor {
		return 0
	}
	return milliseconds(b.quantile(0.99))
}

func (r *readings) secondsDown() float64 {
	if r.store.DownSince == nil {
		return 0
	}
	return max(0, r.now.Sub(*r.store.DownSince).Seconds())
}

// spike returns the current traffic as a multiple of the usual traffic. If several processes share
// their counts, it returns 0 in all processes except the one that leads.
func (r *readings) spike() float64 {
	if len(r.processes) > 0 && !r.leads() {
		return 0
	}
	return r.surge.Times
}

// scriptErrors returns the share of calls that fail while others succeed. It returns 0 while the
// store is down, because the alert StoreDown reports that. It also returns 0 if no call has failed
// within lateWindow.
func (r *readings) scriptErrors() float64 {
	if r.store.DownSince != nil || r.justNow.CallsFailed == 0 {
		return 0
	}
	return shareOf(r.lately.CallsFailed, r.lately.Calls)
}

// fault describes why the store is down, and how to fix it.
func (r *readings) fault() string {
	o := r.store.Outage
	if o == nil {
		return ""
	}
	text := fmt.Sprintf(" It %s. %s %s", o.Is, o.Why, o.Fix)
	if o.Error != "" {
		text += " Last error: " + o.Error
	}
	return text
}

func (r *readings) lastError() string {
	if r.store.LastError == "" {
		return ""
	}
	return " Last error: " + r.store.LastError
}

// daysLeft returns the number of days until the first certificate expires. It returns 0 if there is
// no certificate. If a certificate has expired, it returns a little more than 0, because 0 would
// end the alert.
func (r *readings) daysLeft() float64 {
	if r.expiring == "" {
		return 0
	}
	return max(r.expires.Sub(r.now), time.Second).Hours() / 24
}

// change describes the latest configuration change that explains the denials. It returns "" if
// there is none.
func (r *readings) change() string {
	for i := len(r.changes) - 1; i >= 0; i-- {
		if c := &r.changes[i]; c.Explains {
			return " " + c.String()
		}
	}
	return ""
}

// redis returns the values that Redis last reported about itself, or a zero RedisInfo if they are
// out of date. They may be up to date even if all calls fail, for instance when Redis's memory is
// full.
func (r *readings) redis() RedisInfo {
	if !r.store.fresh(r.now) {
		return RedisInfo{}
	}
	return *r.store.Redis
}

// memoryShare returns the share of its memory that Redis uses. It returns at least 1 if Redis
// rejects writes because its memory is full.
func (r *readings) memoryShare() float64 {
	if r.store.Outage != nil && r.store.Outage.Fault == errkind.Full {
		return max(1, r.redis().MemoryShare)
	}
	return r.redis().MemoryShare
}

// evicting returns 1 if Redis may evict keys that have not expired, else 0.
func (r *readings) evicting() float64 {
	if redis := r.store.Redis; redis != nil && redis.MaxMemory > 0 && redis.Policy != "" &&
		redis.Policy != "noeviction" {
		return 1
	}
	return 0
}

func (r *alertRule) describe(threshold float64) string {
	if !strings.Contains(r.summary, "%s") {
		return r.summary
	}
	return fmt.Sprintf(r.summary, amount(threshold, r.unit))
}

func amount(value float64, unit string) string {
	switch unit {
	case "share":
		value, unit = value*100, "%"
	case "count":
		unit = ""
	default:
		unit = " " + unit
	}
	return strconv.FormatFloat(value, 'g', 4, 64) + unit
}
