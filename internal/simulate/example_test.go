package simulate_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

func ExampleRun() {
	const log = `192.0.2.7 - - [04/Mar/2026:05:06:07 +0000] "GET /search?q=a HTTP/1.1" 200 512 "-" "curl/8"
192.0.2.7 - - [04/Mar/2026:05:06:08 +0000] "GET /search?q=b HTTP/1.1" 200 512 "-" "curl/8"
192.0.2.9 - - [04/Mar/2026:05:06:09 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8"
192.0.2.7 - - [04/Mar/2026:05:06:10 +0000] "GET /search?q=c HTTP/1.1" 200 512 "-" "curl/8"
`
	conf, err := config.Parse("stint.yaml", []byte(`tiers: [{name: anyone, identity: ip, limits: 2/1m}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := accesslog.Open([]string{"-"}, accesslog.Options{Stdin: strings.NewReader(log)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	result, err := simulate.Run(context.Background(), source, simulate.Options{Set: conf.Set, Recommend: []float64{1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	total, hit := result.Outcome.Total, result.Outcome.Hit[0]
	fmt.Printf("%d of %d requests denied\n", total.Denied, total.Requests)
	fmt.Printf("%s by %s, to wait %v\n", hit.Subject, hit.By[0].Limit, hit.WorstWait)
	fmt.Printf("no subject would be denied by %s\n", result.Recommendations[0].Choices[0].Limit)
	// Output:
	// 1 of 4 requests denied
	// ip:192.0.2.7 by 2/1m, to wait 57s
	// no subject would be denied by 3/1m
}
