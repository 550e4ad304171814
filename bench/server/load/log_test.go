package main

import (
	"strings"
	"testing"
	"time"
)

const logHeader = "metric_name,timestamp,metric_value,error_code,name,status,extra_tags,metadata\n"

func TestReadLog(t *testing.T) {
	got, err := readLog(strings.NewReader(logHeader +
		"http_reqs,1700000000500000,1,,search,200,,user=free:33\n" +
		"http_req_duration,1700000000500000,100.5,,search,200,,user=free:33\n" +
		"http_req_duration,1700000000600000,2,1212,simulation,0,,user=pro:7\n" +
		"degraded,1700000000500100,1,,search,200,,user=free:33\n" +
		"iterations,1700000000600000,1,,,,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	end := time.UnixMicro(1700000000500000)
	want := []request{
		{"free:33", "search", 200, end.Add(-100500 * time.Microsecond), end, true},
		{"pro:7", "simulation", 0, end.Add(98 * time.Millisecond), end.Add(100 * time.Millisecond), false},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestReadLogMistakes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "EOF"},
		{"another file", "a,b\n", "no column metric_name"},
		{"a row too short", logHeader + "http_req_duration\n", "wrong number of fields"},
		{"no time", logHeader + "http_req_duration,now,1,,search,200,,user=free:1\n", "line 2"},
		{"nobody", logHeader + "http_req_duration,1,1,,search,200,,\n", `invalid user ""`},
		{"no tier", logHeader + "http_req_duration,1,1,,search,200,,user=gold:1\n", `invalid user "gold:1"`},
		{"without Redis, and nothing before", logHeader + "degraded,1,1,,search,200,,user=free:1\n",
			"free:1, but no request"},
		{"no route", logHeader + "http_req_duration,1,1,,elsewhere,200,,user=free:1\n", `unknown route "elsewhere"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := readLog(strings.NewReader(test.text)); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestResult(t *testing.T) {
	good := append(logOf("free:1", "search", answered{0, 60, 200}, answered{1, 5, 429}),
		logOf("pro:1", "search", answered{0, 35, 200})...)
	tests := []struct {
		name string
		log  []request
		want string // in the error; "" is none
	}{
		{"as promised", good, ""},
		{"nobody is denied", good[:60], "a share of 0.000 was denied; want 0.04 to 0.06"},
		{"a failure", append(good[:len(good):len(good)], logOf("pro:2", "search", answered{0, 1, 502})...),
			"1 requests were answered with neither"},
		{"an unjustified denial", append(good[:len(good):len(good)],
			logOf("pro:2", "search", answered{0, 1, 429})...), "not justified: 1, such as pro:2"},
		{"an excess", append(good[:len(good):len(good)], logOf("free:1", "search", answered{2, 1, 200})...),
			"limits exceeded: 1, such as free:1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := summarize(test.log)
			if err != nil {
				t.Fatal(err)
			}
			switch err := r.failure(); {
			case test.want == "" && err != nil, test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
			if text := r.text(); !strings.Contains(text, "| free ") {
				t.Errorf("got\n%s", text)
			}
		})
	}
	if _, err := summarize(nil); err == nil {
		t.Error("got no error without requests")
	}
}
