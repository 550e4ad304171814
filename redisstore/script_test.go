package redisstore

import (
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/algorithm"
	"github.com/stint-limiter/stint/internal/testkit"
)

// The numbers that Go and Lua share are equal.
func TestNumbers(t *testing.T) {
	text, _, found := strings.Cut(file("numbers"), "-- Only the scripts use the other numbers.")
	if !found {
		t.Fatal("numbers.lua does not mark where the numbers of Go end")
	}
	want := map[string]int64{
		"MAX_UNITS":    stint.MaxUnits,
		"RESOLUTION":   stint.Resolution,
		"MAX_BOOKINGS": driver.MaxBookings,
		"MAX_ENTRIES":  algorithm.MaxEntries,
		"MAX_IDS":      driver.MaxIDs,
		"MAX_REPEATS":  driver.MaxRepeats,
		"MAX_SETTLED":  driver.MaxSettled,
		"MAX_HOLDS":    driver.MaxHolds,
		"LONGEST_HOLD": driver.LongestHold.Microseconds(),
		"MAX_KNOWN":    maxKnown,
		"ID_STEP":      idStep,
		"NEVER":        never,

		"SLIDING": int64(stint.AlgorithmSliding), "BUCKET": int64(stint.AlgorithmBucket),
		"FIXED": int64(stint.AlgorithmFixed), "CALENDAR": int64(storedCalendar),
		"TAKE": int64(stint.ModeTake), "PEEK": int64(stint.ModePeek), "RESERVE": int64(stint.ModeReserve),
		"FORCE":  int64(driver.ModeForce),
		"SETTLE": int64(stint.AmendSettle), "EXTEND": int64(stint.AmendExtend), "RELEASE": int64(stint.AmendRelease),
		"UNDO":  int64(undo),
		"RESET": int64(stint.CommandReset), "BAN": int64(stint.CommandBan), "UNBAN": int64(stint.CommandUnban),
		"GIVE_BACK": int64(stint.CommandGiveBack),

		"PLAIN": runPlain, "PLAIN_BANS": runPlainBans, "PLAIN_PEEK": runPlainPeek,
		"PLAIN_EQUAL": runPlainEqual, "PLAIN_HOLD": runPlainHold, "OTHER": runOther,
		"ALLOWED": flagAllowed, "REPEAT": flagRepeat, "BANNED": flagBanned, "DIRECTORIES": flagDirectories,
		"RECALLED": flagRecalled,
		"LATE":     markLate, "CHARGED": markCharge, "FAILED": markFailed,

		"PLAIN_STATE": plainState, "BOOKED_STATE": 'B',
		"DIRECTORY_START": directoryStart, "DIRECTORY_LIMIT": directoryLimit,
		"HEADER_SIZE": headerSize, "LOG_HEAD": logHead, "METER_HEAD": meterHead,
		"FIRST_HEAD": firstHead, "LOG_FIELDS": logFields, "METER_FIELDS": meterFields,
		"HAS_METER": hasMeter, "ENTRY_WIDTH": entryWidth, "ENTRY_STAMP": entryStamp,
		"HELD": isHeld, "CHARGES": isCharged,
		"BAN_MARK": banMark, "BAN_SIZE": banSize,
	}
	got := map[string]int64{}
	for name, value := range numbersIn(text) {
		got[name], _ = strconv.ParseInt(value, 10, 64)
	}
	if !maps.Equal(got, want) {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got[name] != want[name] {
				t.Errorf("%s is %d in Lua and %d in Go", name, got[name], want[name])
			}
			delete(got, name)
		}
		for name := range got {
			t.Errorf("%s is not compared with Go", name)
		}
	}
}

// Every script as Redis runs it is valid Lua, and uses no globals but those of Redis.
func TestScriptsAreValid(t *testing.T) {
	t.Parallel()
	luacheck, err := exec.LookPath("luacheck")
	if err != nil {
		if testing.Short() {
			t.Skip("needs luacheck: make test runs it")
		}
		t.Fatal("luacheck is not installed: run make setup")
	}
	for name, s := range map[string]*script{
		"take": takeScript, "amend": amendScript, "command": commandScript, "inspect": inspectScript,
		"present": presentScript, "table": tableScript,
	} {
		// Errors of syntax, globals that are not known, and code that is never reached.
		check := exec.Command(luacheck, "--std", "lua51", "--read-globals", "redis", "struct", "KEYS", "ARGV",
			"--only", "0", "1", "5", "--no-color", "-")
		check.Stdin = strings.NewReader(s.source)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s.lua, joined: %v\n%s", name, err, out)
		}
	}
}

// A function of the scripts can be read at once: it has at most 80 lines and 8 parameters.
func TestFunctionsAreShort(t *testing.T) {
	files := testkit.Must(sources.ReadDir("lua"))(t)
	for _, f := range files {
		functions := functionsIn(file(strings.TrimSuffix(f.Name(), ".lua")))
		for _, fn := range functions {
			if fn.lines > 80 || fn.parameters > 8 {
				t.Errorf("%s: %s has %d lines, %d parameters", f.Name(), fn.name, fn.lines, fn.parameters)
			}
		}
	}
	if got := functionsIn("local function f(a, b)\n  x()\nend\nfunction W.g() end\n"); len(got) != 2 || got[0].lines != 3 ||
		got[0].parameters != 2 || got[1].lines != 1 || got[1].parameters != 0 {
		t.Error("functions are not found:", got)
	}
}

type luaFunction struct {
	name              string
	lines, parameters int
}

// functionsIn returns the functions of a source that are in no other function. They begin and end
// in the first column.
func functionsIn(source string) (found []luaFunction) {
	open := false
	for line := range strings.Lines(source) {
		line = strings.TrimSuffix(line, "\n")
		head, begins := strings.CutPrefix(strings.TrimPrefix(line, "local "), "function ")
		if begins {
			name, rest, _ := strings.Cut(head, "(")
			parameters, body, _ := strings.Cut(rest, ")")
			fn := luaFunction{name: name, lines: 1}
			if parameters != "" {
				fn.parameters = 1 + strings.Count(parameters, ",")
			}
			found, open = append(found, fn), !strings.HasSuffix(body, " end")
			continue
		}
		if open {
			found[len(found)-1].lines++
			open = line != "end"
		}
	}
	return found
}
