package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stint-limiter/stint/examples/tiers"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

func TestLedgerForgetsTheIdle(t *testing.T) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	set, err := policy.Parse("stint.yaml", tiers.YAML)
	if err != nil {
		t.Fatal(err)
	}
	var book ledger
	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Observer: &book, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const more = 5
	for i := range mostAccounts + more {
		var v policy.Verdict
		in := policy.Input{Method: "GET", Path: "/structures/4hhb", Claims: user(fmt.Sprint(i))}
		if err := guard.Decide(context.Background(), &in, &v); err != nil {
			t.Fatal(err)
		}
	}
	list := book.list()
	if got, want := len(list), mostAccounts; got != want {
		t.Fatalf("%d accounts, want %d", got, want)
	}
	if got, want := list[0].key, fmt.Sprintf("user:%d:structure", more); got != want {
		t.Errorf("the oldest account is that of %s, want %s", got, want)
	}
}

type user string

func (u user) Claim(name string) string {
	if name == "user" {
		return string(u)
	}
	return ""
}
