package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/stint-limiter/stint/internal/server/control"
)

func (c *doctorCommand) diagnoseServer(ctx context.Context, found *findings, client *control.Client, version string) {
	var refused *control.RefusedError
	err := client.Ready(ctx)
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable:
		found.fail("server", "running but not ready: "+err.Error(),
			"if it has just started or is stopping, wait; its log has details")
	case errors.As(err, &refused):
		found.fail("server", c.problem(err).Error(), "stint doctor --server "+localAdmin)
		return
	case err != nil:
		if what, flags := c.tlsProblem(err); what != "" {
			found.fail("server", what, "stint doctor "+flags)
		} else {
			found.fail("server", c.problem(err).Error(), "stint serve --config stint.yaml")
		}
		return
	default:
		found.ok("server", "ready")
	}
	state, err := client.State(ctx)
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		found.fail("token", c.problem(err).Error(), "stint doctor --token-file FILE")
		return
	}
	if err != nil {
		found.fail("state", c.problem(err).Error(), "")
		return
	}
	if state.Version != "" && state.Version != version {
		found.ok("version", "the server is %s, and this program is %s", state.Version, version)
	} else {
		found.ok("version", "%s", version)
	}
	diagnoseSources(found, state.Config.Sources)
	diagnoseStore(found, &state)
	diagnoseAlerts(found, &state)
}

func diagnoseSources(found *findings, sources []control.SourceState) {
	for _, from := range sources {
		if from.Error == "" {
			found.ok("configuration", "%s (%s) is in force", from.Path, from.Name)
			continue
		}
		fix := "correct " + from.Path + "; it is read again when it changes"
		switch from.Name {
		case "policies":
			fix = "stint config check " + from.Path
		case "envoy":
			fix = "stint config check --envoy " + from.Path
		}
		first, _, _ := strings.Cut(from.Error, "\n")
		found.fail("configuration", fmt.Sprintf("%s (%s) is invalid, and the last valid one stays in force: %s",
			from.Path, from.Name, first), fix)
	}
	if len(sources) == 0 {
		found.ok("configuration", "built in")
	}
}

func diagnoseStore(found *findings, state *control.State) {
	store := &state.Store
	switch outage := store.Outage; {
	case store.Up:
		found.ok("store", "%s", store.Name)
	case outage != nil:
		found.fail("store", fmt.Sprintf("%s %s: %s", store.Name, outage.Is, outage.Error),
			fmt.Sprintf("%s More: stint doctor --store %s", outage.Fix, store.Name))
	default:
		found.fail("store", fmt.Sprintf("%s is down: %s", store.Name, store.LastError),
			"stint doctor --store "+store.Name)
	}
	for _, warning := range store.Warnings {
		found.warn("store", warning, "stint doctor --store "+store.Name)
	}
}

func diagnoseAlerts(found *findings, state *control.State) {
	firing := 0
	for _, a := range state.Alerts {
		if a.State != "firing" {
			continue
		}
		firing++
		if a.Severity == "page" {
			found.fail("alert", a.Name+": "+a.Summary, "")
		} else {
			found.warn("alert", a.Name+": "+a.Summary, "")
		}
	}
	if firing == 0 {
		found.ok("alerts", "none of %d is firing", len(state.Alerts))
	}
}
