package accesslog_test

import (
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

const logged = `192.0.2.1 - - [10/Oct/2000:13:55:37 -0700] "GET /fast HTTP/1.1" 200 12 "-" "curl/8.5.0"
192.0.2.2 - ann [10/Oct/2000:13:55:36 -0700] "POST /slow?n=1 HTTP/1.1" 201 7 "-" "curl/8.5.0"
192.0.2.3 - - [10/Oct/2000:13:55:38 -0700] "-" 408 0 "-" "-"
`

func ExampleOpen() {
	source, err := accesslog.Open([]string{"-"}, accesslog.Options{Stdin: strings.NewReader(logged)})
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	var r accesslog.Record
	for {
		err := source.Next(&r)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Client, r.Method, r.Path)
	}
	stats := source.Stats()
	fmt.Println(stats.Lines, "lines,", stats.Malformed, "malformed:", stats.Examples[0].Reason)
	// Output:
	// 192.0.2.2 POST /slow
	// 192.0.2.1 GET /fast
	// 3 lines, 1 malformed: no request line
}

func ExampleParseMapping() {
	mapping, err := accesslog.ParseMapping("time=at,path=req.url,header:X-Api-Key=req.key,claim:plan=account.plans")
	if err != nil {
		log.Fatal(err)
	}
	format, err := accesslog.NewFormat("json", mapping)
	if err != nil {
		log.Fatal(err)
	}
	var r accesslog.Record
	err = format.Parse([]byte(`{"at":971211336,"req":{"url":"/a?b","key":"k1"},"account":{"plans":["pro","free"]}}`),
		&r)
	fmt.Println(r.Path, r.Headers, r.Claims, err)
	// Output: /a [{X-Api-Key k1}] [{plan pro}] <nil>
}
