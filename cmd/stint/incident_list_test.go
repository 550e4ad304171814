package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/testkit"
)

// incidentText describes an incident, and what operators see of it. "…" stands for any text.
// TestIncidents causes each incident, and docs/troubleshooting.md has a table of them.
type incidentText struct {
	what  string
	fault string // name of the fault in errkind; "" if Redis has no fault
	page  string // the sentences at the top of the dashboard
	// alert is the name of an alert that fires, and alertSays is part of its text. Both are "" if
	// no alert fires.
	alert, alertSays string
	log              string
	// With flag, which is --store or --server, the doctor reports result under name, with the text
	// found.
	flag, result, name, found string
}

// outageOf returns an incident in which calls to Redis fail and a check of the doctor fails.
func outageOf(what, fault, name, found string) incidentText {
	is := errkind.FaultOf(fault).Is
	return incidentText{what: what, fault: fault, page: "Limiter degraded: Redis " + is + "…",
		alert: "StoreDown", alertSays: "It " + is, log: "is unavailable: it " + is,
		flag: "--store", result: resultFail, name: name, found: found}
}

var incidents = []incidentText{
	outageOf("Redis is killed", errkind.Unreachable, "connection", "cannot be reached"),
	outageOf("Redis is stopped, or hangs", errkind.Silent, "connection", "accepts connections but does not answer"),
	outageOf("Redis, or the way to it, is slow", errkind.Slow, "latency", "decisions take at least as long"),
	outageOf("The password is changed", errkind.Auth, "connection", "requires a password"),
	outageOf("Redis is full", errkind.Full, "scripts", "is out of memory"),
	outageOf("A script of another client does not end", errkind.Script, "connection", "is blocked by a script"),
	outageOf("A node of the Cluster is lost", errkind.Node, "cluster", "has lost a node of its Cluster"),
	{what: "Sentinel fails over", page: "Limiter healthy.…Redis was down from", log: "the store is available again",
		flag: "--server", result: resultOK, name: "store"},
	{what: "The clock of Redis is set", page: "Limiter needs attention.…the clock of Redis…was set ahead by 1 h",
		log: "the clock of Redis was set", flag: "--store", result: resultWarn, name: "clock",
		found: "its clock and this host's differ by 1h"},
	{what: "One address sends far too much", page: "Under attack: ip:203.0.113.x",
		alert: "BlockedShare", alertSays: "were denials", log: "alert=BlockedShare",
		flag: "--server", result: resultWarn, name: "alert", found: "BlockedShare"},
	{what: "Many addresses attack several routes", page: "Many subjects are limited.",
		alert: "BlockedShare", alertSays: "were denials", log: "alert=BlockedShare",
		flag: "--server", result: resultWarn, name: "alert", found: "BlockedShare"},
	{what: "The limit of a tier is too low", page: "A limit may be too low.…one rule, tier anonymous",
		alert: "BlockedShare", alertSays: "were denials", log: "alert=BlockedShare",
		flag: "--server", result: resultWarn, name: "alert", found: "BlockedShare"},
	{what: "A limit is lowered", page: "A configuration change causes denials.…from 100000/1h to 2/1h",
		alert: "BlockedShare", alertSays: "from 100000/1h to 2/1h", log: "from 100000/1h to 2/1h",
		flag: "--server", result: resultWarn, name: "alert", found: "from 100000/1h to 2/1h"},
	{what: "A botnet stays below the limits",
		page:  "Traffic is…times the usual, from at least…new addresses, all below their limits.",
		alert: "Spike", alertSays: "new addresses, all below their limits", log: "alert=Spike",
		flag: "--server", result: resultWarn, name: "alert", found: "Spike"},
	{what: "A configuration is invalid",
		page:  "Limiter needs attention.…The new configuration is invalid (policies): the last valid one is in force.",
		alert: "ConfigRefused", alertSays: "Refused: policies", log: "stint.yaml:1",
		flag: "--server", result: resultFail, name: "configuration", found: "the last valid one stays in force"},
	{what: "An expired certificate is rolled out",
		page:  "Limiter needs attention.…The new configuration is invalid (certificate for Redis)",
		alert: "ConfigRefused", alertSays: "Refused: certificate for Redis", log: "the certificate expired on",
		flag: "--server", result: resultFail, name: "configuration", found: "the certificate expired on"},
	{what: "Processes have different configurations",
		page:  "Limiter needs attention.…has a different configuration in force",
		alert: "ConfigDiffers", alertSays: "different configurations", log: "alert=ConfigDiffers",
		flag: "--server", result: resultWarn, name: "alert", found: "ConfigDiffers"},
	{what: "A process hangs", page: "Limiter unhealthy.…has not reported",
		alert: "ProcessSilent", alertSays: "Silent: ", log: "alert=ProcessSilent",
		flag: "--server", result: resultFail, name: "alert", found: "ProcessSilent"},
}

// incidentTable returns the table of incidents for the documentation.
func incidentTable() string {
	var b strings.Builder
	b.WriteString("| what happens | the page | alert | the log | `stint doctor` |\n|---|---|---|---|---|\n")
	spaced := strings.NewReplacer(".…", ". … ", "…", " … ")
	for _, i := range incidents {
		alert := "–"
		if i.alert != "" {
			alert = fmt.Sprintf("[%s](alerts.md#%s): %s", i.alert, strings.ToLower(i.alert),
				strings.TrimSpace(i.alertSays))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s`: %s |\n", i.what, strings.TrimSpace(spaced.Replace(i.page)),
			alert, i.log, i.flag, strings.TrimSpace(i.result+" "+i.name+" "+i.found))
	}
	return b.String()
}

// TestIncidentTable checks that the table in the documentation lists the incidents. With -update,
// it writes the table.
func TestIncidentTable(t *testing.T) {
	const page, begin, end = "../../docs/troubleshooting.md", "<!-- incidents -->\n", "<!-- end of incidents -->\n"
	head, rest, ok := strings.Cut(testkit.ReadFile(t, page), begin)
	table, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no table between %q and %q", page, begin, end)
	}
	if *update {
		table = incidentTable()
		if err := os.WriteFile(page, []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if table != incidentTable() {
		t.Errorf("the table in %s differs (make incident-table writes it); want\n%s", page, incidentTable())
	}
}
