# make up    the whole of Fanfare in one process, embedded; needs only Go
# make test  everything, with the emulators it installs itself
GO ?= go
SEEDS ?= 1000
FROM ?= 1
FLAGS ?=
ROUNDS ?= 20
# How long the simulation may take; 0 is without end.
SIM_TIMEOUT ?= 60m

LINT = $(GO) tool -modfile=tools/go.mod golangci-lint

.PHONY: up build test-tools test test-long test-crash lint bench sim sim-planted soak vuln

up: bin/fanfare
	./bin/fanfare up --demo $(FLAGS)

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

bin/fanfare: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./cmd/fanfare
FORCE:

# What ./e2e runs beside the emulators.
test-tools:
	scripts/schemathesis.sh install
	scripts/chromium.sh install

# -short leaves Watermill's conformance suite at its short mode and the
# simulation at 50 seeds; test-long, sim and test-crash go further.
test: test-tools
	scripts/with-emulators.sh $(GO) test -race -short -tags e2e,invariants -timeout 30m ./...

test-long: test-tools
	scripts/with-emulators.sh $(GO) test -race -tags e2e,invariants -timeout 60m ./internal/queue/... ./internal/table/... ./e2e

# Kills and stops the real binaries under load, and puts a bad network between them
# and AWS. A round waits a minute for what the killed one held; some run at once.
test-crash:
	scripts/with-emulators.sh $(GO) test -tags e2e -timeout 90m -v -parallel 4 ./e2e \
		-run 'Crash|Stopped|BadNetwork' -crash-rounds $(ROUNDS) -network-rounds 4

lint:
	$(GO) vet -tags e2e ./...
	test -z "$$(gofmt -l $$(git ls-files '*.go'))"
	$(GO) mod tidy -diff
	$(LINT) run ./...

# Each target beside its baseline; FLAGS="--quick" or "--only T1,T3".
bench: bin/fanfare
	./bin/fanfare bench $(FLAGS)

# Deterministic: a seed that fails prints the command that replays it, and is shrunk.
sim:
	$(GO) test -tags invariants -c -o bin/sim.test ./internal/sim
	cd internal/sim && ../../bin/sim.test -test.timeout $(SIM_TIMEOUT) -test.v -test.run '^TestSeeds$$' -seeds $(SEEDS) -from $(FROM)

# The test of the test: each planted bug has to be found within 300 seeds.
sim-planted:
	$(GO) test -tags invariants -c -o bin/sim.test ./internal/sim
	cd internal/sim && ../../bin/sim.test -test.timeout 60m -test.run '^TestEveryPlantedBugIsFound$$' -planted

# For hours: seeds that nobody has run, then real processes killed again and again.
soak:
	$(MAKE) sim SEEDS=20000 FROM=$$(date +%s) SIM_TIMEOUT=0
	$(MAKE) test-crash ROUNDS=200

# Needs the vulnerability database, so it is no part of lint.
vuln:
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...
