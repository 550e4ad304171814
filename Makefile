# Development of stint. `make` alone lists the targets.

GO         ?= go
FUZZTIME   ?= 60s
BENCHFLAGS ?=
SOAK       ?= 10m
DECISIONS  ?= 10000000
LOAD       ?= 60s
LOADFLAGS  ?=
SABOTAGEFLAGS ?=
# The tests of these packages drive programs, browsers or simulated fleets, or test pure functions, which share nothing.
# The race detector would make them several times slower, and would watch only the driver: the packages that they
# drive have their own tests.
UNWATCHED   = faults internal/histories cmd dashboard internal/server/e2e examples internal/doctest internal/simulate clients \
	internal/layout internal/algorithm internal/calendar internal/oracle internal/tokens
# In other packages, testkit.SkipUnderRace marks tests that compute much and share nothing between goroutines.
UNRACED     = --include='*_test.go' --exclude-dir=histories 'testkit.SkipUnderRace(t)' .
# Regular expressions and the slow reference share nothing, and the race detector makes them several times slower.
RACE        = -race -gcflags=regexp=-race=false \
	-gcflags=github.com/stint-limiter/stint/internal/oracle=-race=false
STATICCHECK = $(GO) tool -modfile=$(CURDIR)/tools/go.mod staticcheck
GORELEASER  = $(GO) tool -modfile=tools/release/go.mod goreleaser
LUAC       ?= $(shell command -v luac5.1 || command -v luac)
K6          = go.k6.io/k6@v1.8.1
RATELIMIT   = github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Run the demo: a gateway behind the example tiers, with callers and a dashboard
	@$(GO) build -o bin/stint ./cmd/stint && exec bin/stint demo

.PHONY: setup
setup: ## Install what the tests need and is missing (redis-server, curl, proxies, a browser, axe-core, Node, promtool, frameworks, a C compiler)
	@scripts/setup.sh

.PHONY: check
check: lint ## Lint (needs luac and luacheck), and run the tests that start no other program; about a minute, for use while editing
	$(GO) test -short -vet=off -p 4 ./... # the tests wait more than they compute; lint has vetted them

# By default, the race detector waits for a second at the end of every process, and the compiler spends a quarter of its
# time on garbage collection. make lint runs vet.
.PHONY: test
test test-%: export GORACE ?= atexit_sleep_ms=10
test test-%: export GOGC ?= 400
test test-%: export STINT_BINARY = $(CURDIR)/bin/stint
test: test-plain test-race test-unraced test-modules ## Run all tests, most with the race detector, against real Redis servers; before a change is done

.PHONY: test-program test-plain test-race test-unraced test-modules
test-program: setup # once for all tests that run it
	$(GO) build -o $(STINT_BINARY) ./cmd/stint

test-plain: test-program # the slowest first; they wait more than they compute
	$(GO) test -vet=off -shuffle=on -timeout 30m -p 3 -parallel 4 $(UNWATCHED:%=./%/...)

test-race: test-program
	$(GO) test $(RACE) -vet=off -shuffle=on -timeout 30m -p 3 ./redisstore ./internal/histories \
		$$($(GO) list ./... | grep -vE "/stint/($$(echo $(UNWATCHED) | tr ' ' '|'))(/|$$)")

test-unraced: test-program
	$(GO) test -vet=off -shuffle=on -timeout 30m -p 3 $$(grep -rl $(UNRACED) | xargs -n 1 dirname | sort -u) \
		-run "^($$(grep -rhB 1 $(UNRACED) | sed -n 's/^func \(Test[^(]*\).*/\1/p' | paste -sd '|'))$$"

test-modules: test-program
	cd examples/routers && $(GO) test -vet=off -shuffle=on ./... # compiled as ./examples runs them
	cd bench && $(GO) test -vet=off ./...
	cd deploy/test && $(GO) test -vet=off -shuffle=on ./...
	cd tools/sabotage && $(GO) test -vet=off -shuffle=on ./...

# Not part of make test: the image needs root, cgroups and two minutes, and Helm a minute to compile.
.PHONY: deploy-test
deploy-test: image ## Build the container image and run it, and test everything else in deploy/ (as root)
	@scripts/setup.sh deploy
	cd deploy/test && $(GO) vet -tags image ./... && $(STATICCHECK) -tags image ./...
	cd deploy/test && $(GO) test -vet=off -tags image -count=1 -v ./...

# Makes the files that deploy/Dockerfile copies. For another architecture: GOARCH=arm64 make image
CERTIFICATES ?= $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem))

.PHONY: image
image: ## Make bin/image, which deploy/Dockerfile builds the container image from
	rm -rf bin/image && mkdir -p bin/image/state bin/image/bin
	ln -s ../stint bin/image/bin/ratelimit # Envoy Gateway starts it
	cp "$(CERTIFICATES)" bin/image/ca-certificates.crt
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -ldflags="-s -w" -o bin/image/stint ./cmd/stint

.PHONY: lint lint-go lint-lua
lint: lint-go lint-lua ## Check formatting, Lua syntax, go.mod, vet and staticcheck

lint-lua:
	@if [ -z "$(LUAC)" ]; then echo "lint: no luac5.1 and no luac found: install lua5.1 (make setup does), or set LUAC" >&2; exit 1; fi
	find . -name node_modules -prune -o -name '*.lua' -print0 | xargs -0 -n 1 $(LUAC) -p
	@# For a test of redisstore, which make check would skip without it.
	@command -v luacheck >/dev/null || { echo "lint: no luacheck found: install lua-check (make setup does)" >&2; exit 1; }

# With the default, staticcheck spends about a third of its time on garbage collection.
lint-go: export GOGC ?= 400
lint-go:
	@unformatted="$$(find . -name node_modules -prune -o -name '*.go' -print0 | xargs -0 gofmt -l)"; if [ -n "$$unformatted" ]; then \
		echo "not formatted (run make fmt):"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) vet -tags incidents ./...
	$(STATICCHECK) -tags incidents ./...
	cd examples/routers && $(GO) vet ./... && $(STATICCHECK) ./...
	cd bench && $(GO) vet ./...
	cd deploy/test && $(GO) vet ./... # make deploy-test runs staticcheck, which has to read all of Kubernetes' API
	cd tools/release && $(GO) vet ./... && $(STATICCHECK) ./...
	cd tools/sabotage && $(GO) vet ./... && $(STATICCHECK) ./...
	cd tools/openapi && $(GO) vet ./...

.PHONY: fuzz
fuzz: setup ## Run every fuzz target for FUZZTIME (60s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
		done; \
	done

.PHONY: bench
bench: setup ## Compare with other limiters (BENCHFLAGS="...")
	cd bench && $(GO) run . $(BENCHFLAGS)

.PHONY: bench-check
bench-check: setup ## Fail if a short run is worse than bench/results.md by more than a fifth
	cd bench && $(GO) run . -short -only memory,size,redis-1,redis-64,redis-256,tiers,cluster,http -check results.md

.PHONY: bench-server
bench-server: setup bin/ratelimit ## Compare the daemon with envoyproxy/ratelimit, nginx and Caddy (BENCHFLAGS="...")
	$(GO) build -o bin/stint ./cmd/stint
	cd bench && $(GO) build -o ../bin/bench-server ./server
	PATH=$$PATH:/usr/sbin bin/bench-server -stint bin/stint -ratelimit bin/ratelimit $(BENCHFLAGS)

bin/ratelimit:
	@echo "building envoyproxy/ratelimit, a minute or two"
	@GOBIN=$(CURDIR)/bin $(GO) install $(RATELIMIT) && mv bin/service_cmd $@ || \
		echo "envoyproxy/ratelimit cannot be built; going on without it" >&2

.PHONY: load
load: setup bin/k6 ## Send requests of 1,000 users for LOAD (60s), twice, and check every answer (LOADFLAGS="...")
	$(GO) build -o bin/stint ./cmd/stint
	cd bench && $(GO) build -o ../bin/load ./server/load
	bin/load -stint bin/stint -k6 bin/k6 -script bench/server/load/load.js -duration $(LOAD) $(LOADFLAGS)
	bin/load -defaults -stint bin/stint -k6 bin/k6 -script bench/server/load/load.js -duration $(LOAD) $(LOADFLAGS)

bin/k6:
	@echo "building k6, a few minutes"
	@GOBIN=$(CURDIR)/bin $(GO) install $(K6)

.PHONY: screenshots
screenshots: setup ## Run the demo for some minutes, and make the pictures in docs/images
	STINT_SCREENSHOTS=$(CURDIR)/docs/images $(GO) test -run 'Screenshots|Incident' -count=1 -v ./internal/server/e2e
	STINT_SCREENSHOTS=$(CURDIR)/docs/images $(GO) test -run TestPage/pictures -count=1 ./internal/simulate/report

.PHONY: faults
faults: setup ## Break real servers in every way, measure, and write the table in docs/faults.md
	cd faults && $(GO) test -count=1 -timeout 30m -args -measure -o $(CURDIR)/docs/faults.md

.PHONY: incidents
incidents: setup ## Cause every incident of docs/troubleshooting.md, and check what the page, alerts, log and doctor report; eight minutes
	$(GO) test -tags incidents -run TestIncidents -count=1 -v -timeout 30m ./cmd/stint

.PHONY: incident-table
incident-table: ## Write the table of incidents in docs/troubleshooting.md
	$(GO) test -run TestIncidentTable -count=1 ./cmd/stint -update

.PHONY: soak
soak: setup ## Cause random faults for SOAK (10m), first simulated and then in real servers
	$(GO) test ./internal/histories -run TestHistories -v -count=1 -timeout 24h -args -for $(SOAK) -first 0 -survey
	$(GO) test ./memorystore ./redisstore -run 'Model|TestSingle$$/model' -v -count=1 -timeout 24h -args -rapid.seed=0 -rapid.checks=1000
	cd faults && $(GO) test -run F36 -v -count=1 -timeout 24h -args -measure -soak $(SOAK)

.PHONY: prove
prove: ## Simulate DECISIONS (10000000) decisions of a fleet under faults, check every window, and write bin/scale.md, .json and .html; some minutes
	@mkdir -p bin
	$(GO) test ./internal/histories -run 'TestScale$$|TestHierarchies' -v -count=1 -timeout 24h -args -decisions $(DECISIONS) -o $(CURDIR)/bin/scale

.PHONY: sabotage
sabotage: setup ## Change the code in small ways, and count the changes that the tests detect; up to an hour (SABOTAGEFLAGS="-h")
	cd tools/sabotage && $(GO) build -o $(CURDIR)/bin/sabotage .
	bin/sabotage $(SABOTAGEFLAGS)

.PHONY: release-test
release-test: ## Build a release of this commit, check every file of it, and go install it; some minutes, as root
	@scripts/setup.sh release
	GOOS=windows $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	cd tools/release && $(GO) vet ./... && $(GO) test -count=1 -timeout 60m -v ./...

# The notes of a release are the section of its tag in the changelog. Without such a section, nothing is published.
.PHONY: release
release: ## Build and publish the release of the tag of this commit; the workflow does it (RELEASEFLAGS="...")
	@mkdir -p bin
	awk -v tag="$$(git describe --tags --exact-match --match 'v*')" \
		'index($$0, "## [" substr(tag, 2) "]") == 1 { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md >bin/notes.md
	@grep -q . bin/notes.md || { echo "release: CHANGELOG.md has no section for the tag of this commit" >&2; exit 1; }
	$(GORELEASER) check
	$(GORELEASER) release --clean --release-notes bin/notes.md $(RELEASEFLAGS)

.PHONY: cover
cover: setup ## Write cover.out and print the total
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./...
	$(GO) tool cover -func=cover.out | tail -n 1

.PHONY: fmt
fmt: ## Format all Go files
	gofmt -w .

.PHONY: clean
clean: ## Remove what the other targets wrote
	rm -rf bin dist cover.out
	$(GO) clean -testcache
