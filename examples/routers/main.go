// Command routers shows the middleware of package httplimit in five routers.
//
//	go run . -router chi
//	curl -i -X POST http://127.0.0.1:8080/jobs/small
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

func main() {
	name := flag.String("router", "net/http", "one of chi, echo, gin, gorilla and net/http")
	address := flag.String("http", "127.0.0.1:8080", "`address` to listen on")
	flag.Parse()
	if err := run(*name, *address); err != nil {
		fmt.Fprintln(os.Stderr, "routers:", err)
		os.Exit(1)
	}
}

func run(name, address string) error {
	router, ok := routers()[name]
	if !ok {
		return fmt.Errorf("router %q; want one of %q", name, slices.Sorted(maps.Keys(routers())))
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	limit, err := newLimit(store)
	if err != nil {
		return err
	}
	return http.ListenAndServe(address, router(limit, work))
}

//go:embed stint.yaml
var rules []byte

func newLimit(store stint.Store) (middleware, error) {
	conf, err := config.Parse("stint.yaml", rules)
	if err != nil {
		return nil, err
	}
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{})
	if err != nil {
		return nil, err
	}
	return httplimit.New(guard), nil
}

// work does a job and returns what it has really cost. Those of the kind "broken" fail.
func work(kind string) (cost string, err error) {
	if kind == "broken" {
		return "", errors.New("no machine is free")
	}
	return "4", nil
}
