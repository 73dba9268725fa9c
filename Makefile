# make up    all of Fanfare in one process, on the embedded engine; needs only Go
# make test  everything, with the emulators that it installs itself
GO ?= go
SEEDS ?= 1000
FROM ?= 1
FLAGS ?=
ROUNDS ?= 20
# Build tags of the tests: e2e adds those that need an emulator or a browser.
TAGS ?= e2e,invariants
# No debugger reads these binaries: without its tables they link in half the time. lint vets.
FAST = -vet=off -ldflags=-w
# Some packages mostly wait for an emulator: one more than the processors run at once.
AT_ONCE = -p $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# Seeds of the simulation for each mutant, and how many mutants to draw; 0 takes all.
MUTANT_SEEDS ?= 300
SAMPLE ?= 0
# How long the simulation may take; 0 sets no limit.
SIM_TIMEOUT ?= 60m

# Runs a command in each module: the product, bench, release and e2e.
EACH = scripts/each-module.sh
LINT = $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

.PHONY: up up-aws build module release changes test-modules test-tools test test-long test-crash import-crash test-upgrade test-platform lint bench day sim sim-reach sim-commit sim-embedded sim-planted histories mutants spec spec-traces explore soak vuln image

up: bin/fanfare
	./bin/fanfare up --demo $(FLAGS)

# The shape of production without Docker: LocalStack and three daemons. Ctrl-C stops them.
up-aws: build
	scripts/up-aws.sh

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

# The image, from the base image with a digest that you have looked at, because a tag may name another image tomorrow:
# docker buildx imagetools inspect golang:1.26.8-trixie, then make image DIGEST=sha256:… IMAGE=registry/fanfare:v0.2.0
IMAGE ?= fanfare
image:
	@echo '$(DIGEST)' | grep -Eqx 'sha256:[0-9a-f]{64}' || { echo 'image: give the digest of the base: make image DIGEST=sha256:…' >&2; exit 2; }
	docker build -f deploy/Dockerfile --build-arg DIGEST=$(DIGEST) -t $(IMAGE) .

bin/fanfare: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./cmd/fanfare
FORCE:

# Renames the module everywhere: make module MODULE=example.org/team/fanfare
module:
	scripts/module.sh $(MODULE)

# The files of a release in bin/release: archives, SBOMs, images, the chart, the TypeScript client, provenance and
# checksums. The same commit and the same Go make the same bytes: make release VERSION=v0.2.0
release:
	scripts/node-tools.sh install client/typescript
	$(GO) run -C release . build $(VERSION)

# Before that: moves the fragments in changes/ to CHANGELOG.md, below VERSION, which README.md names from then on.
changes:
	$(GO) run -C release . changes $(VERSION)

# The modules of every go command that a test runs, so that the tests reach only loopback.
test-modules:
	$(EACH) $(GO) mod download
	$(GO) mod download -C examples/testcontainers
	$(GO) mod download -modfile=tools/go.mod

# Tools that the tests in e2e need beside the emulators.
test-tools: test-modules
	scripts/python-tools.sh install schemathesis
	scripts/producer-python.sh install
	scripts/node-tools.sh install scripts/redocly
	scripts/node-tools.sh install client/typescript
	scripts/node-tools.sh install examples/react
	scripts/chromium.sh install
	scripts/axe.sh install
	scripts/python-tools.sh install deploy-lint
	scripts/helm.sh install
	scripts/need.sh promtool:prometheus

# -short keeps Watermill's conformance suite in its short mode and the simulation at 50
# seeds; test-long, sim and test-crash go further. GOPROXY=off fails a test whose go command
# needs a module that test-modules does not fetch, and go.sum holds the sums (GOSUMDB=off).
test: test-tools
	GOPROXY=off GOSUMDB=off scripts/with-emulators.sh $(EACH) --at-once $(GO) test $(AT_ONCE) -race -short -tags $(TAGS) $(FAST) -timeout 30m ./...

test-long: test-tools
	scripts/with-emulators.sh $(GO) test -race -tags $(TAGS) -timeout 60m ./internal/queue/... ./internal/table/...
	scripts/with-emulators.sh $(GO) test -C e2e -race -tags $(TAGS) -timeout 60m .
	$(MAKE) mutants SAMPLE=100

# Kills, stops and exchanges the real binaries under load, and puts a bad network between
# them and AWS. A round waits a minute for the messages of a killed process to come back, so
# several rounds run at once.
test-crash:
	scripts/with-emulators.sh $(GO) test -C e2e -tags $(TAGS) -timeout 90m -v -parallel 4 . \
		-run 'Crash|Stopped|BadNetwork|RollingExchange' -crash-rounds $(ROUNDS) -network-rounds 4 -exchange-requests 20000

# Imports the real graph with 20,000 posts of two years and kills it three times, and prints
# deliveries a second of an import and of a replay. It takes minutes.
import-crash:
	$(GO) test -C e2e -timeout 60m -v . -run '^TestAnImportThatIsKilledThreeTimesIsExact$$' \
		-import-users 0 -import-posts 20000

# The daemons of the former release beside those of this tree, exchanged in each order and
# back, with kills, under load. It builds the former release from its tag, which CHANGELOG.md names.
# Before the first release it builds this tree a second time instead.
test-upgrade:
	scripts/with-emulators.sh $(GO) test -C e2e -tags $(TAGS),upgrade -timeout 60m -v -parallel 2 . \
		-run 'TwoVersions|ChangesItsVersion|FormerRelease' -all-upgrades

# Takes minutes: the alerts in a real Prometheus on real processes in outages, the binaries with every
# environment that the chart renders from hostile values, and the alarms of the stack on metrics that
# are recorded again from the real transport.
test-platform: test-tools
	scripts/with-emulators.sh $(GO) test -C e2e -tags $(TAGS),platform -timeout 60m -v -parallel 8 -run '^TestPlatform' .
	$(GO) test -C e2e -tags $(TAGS) -timeout 30m -v . -run '^TestTheChartTakesWhatPeopleWriteOrRefusesIt$$' -every-binary
	$(GO) test -C e2e -tags $(TAGS) -timeout 30m -v . -run '^TestTheAlarmsOfTheStackFire' -record

# govet is one of the linters, with all analyzers of go vet.
lint:
	test -z "$$(gofmt -l $$(git ls-files '*.go'))"
	$(EACH) $(GO) mod tidy -diff
	$(EACH) $(LINT) run ./...
	$(GO) tool -modfile=tools/go.mod actionlint
	$(GO) vet -C examples/testcontainers -tags docker ./...

# Each target beside its baseline; FLAGS="--quick" or "--only T1,T3". Without Redis or
# PostgreSQL it leaves their rows out. The results are in bin/bench.json, too.
bench:
	mkdir -p bin
	-scripts/need.sh redis-server:redis-server pg_ctlcluster:postgresql
	$(GO) run -C bench . --json ../bin/bench.json $(FLAGS)

# A day of 10 million users at 1 : 1,000 in virtual time, on demand and with provisioned capacity that
# follows the load: cost, throttling, delays. DAY=evening is an hour of the peak at 1 : 100, and
# FLAGS="-day-json FILE" writes the report. It takes minutes, and 6 GB.
DAY ?= all
day:
	$(GO) test -C bench -count=1 -timeout 120m -v -run '^TestADayOfANetworkOnBothBillingModes$$' . -day $(DAY) $(FLAGS)

# Deterministic: a seed that fails is shrunk and prints the command that replays it.
# sim-reach also fails if fewer than one seed of a hundred comes to each rare state, or performs each
# operation of the product under faults (internal/sim/operations.go).
# sim-embedded runs seeds on the embedded engine, over a disk that fails.
# sim-commit takes its seeds from the commit, so each commit meets seeds that none has met.
# sim-commit, sim-embedded and soak append their runs to internal/sim/runs.jsonl, unless the tree has changes: no
# commit has those.
RUNS = $(if $(shell git status --porcelain -- . ':!internal/sim/runs.jsonl' ':!docs/BUGS.md'),,-record runs.jsonl -commit $(shell git rev-parse HEAD | cut -c1-12))
sim-commit sim-embedded: RECORD = $(RUNS)
sim-commit: SEEDS = 5000
sim-commit: FROM = $(shell echo $$((0x$$(git rev-parse HEAD | cut -c1-15))))
sim sim-reach sim-commit sim-embedded:
	$(GO) test -tags invariants -c -o bin/sim.test ./internal/sim
	cd internal/sim && ../../bin/sim.test -test.timeout $(SIM_TIMEOUT) -test.v -test.run '^TestSeeds$$' -seeds $(SEEDS) -from $(FROM) $(if $(filter sim-reach,$@),-reach) $(if $(filter sim-embedded,$@),-embedded) $(RECORD)
	$(if $(RECORD),$(GO) test ./docs -run RecordOfRuns -update)

# Tests the simulation: it has to find each planted bug within 1,000 seeds.
sim-planted:
	$(GO) test -tags invariants -c -o bin/sim.test ./internal/sim
	cd internal/sim && ../../bin/sim.test -test.timeout 60m -test.run '^TestEveryPlantedBugIsFound$$' -planted
	$(GO) test -count=1 ./internal/archive -run '^TestEveryPlantedBugIsFound$$' -planted

# Some thousand short histories of follows and likes, of the simulation and of real processes, and of
# the product with planted bugs, which have to be refused. It takes minutes.
histories:
	$(GO) test -C e2e -tags invariants -timeout 30m -v ./histories -planted -from $(FROM)
	$(GO) test -C e2e -timeout 30m -v . -run '^TestHistoriesOfTheEmbeddedEngine$$'

# Tests the tests: a change at one place of the product has to fail one of them. All mutants
# take hours; test-long draws a hundred by the commit.
mutants:
	$(GO) run ./internal/mutants -seeds $(MUTANT_SEEDS) -sample $(SAMPLE) $(FLAGS)

# Checks the models of the protocols, then each model without each rule, which has to fail.
# SIZE=large adds larger models.
spec:
	scripts/spec.sh install
	scripts/spec.sh run $(FLAGS)

# Follows traces of the simulation with the models of likes and of homes, in one start of TLC for each: what the product
# writes has to be a step of the model. PLANTED=1 then does so with planted bugs, which the models have to refuse.
TRACES ?= 500
spec-traces:
	scripts/spec.sh install
	$(GO) test -c -o bin/sim.test ./internal/sim
	scripts/spec.sh traces $(TRACES) $(FROM) $(CURDIR)/bin/sim.test
	$(if $(PLANTED),cd internal/sim && ../../bin/sim.test -test.timeout 0 -test.run '^TestTheModelsRefusePlantedBugs$$' -planted -traces 200)

# Every order of steps of the notifications' small worlds, of the worlds with millions of states too. It takes minutes.
explore:
	$(GO) test -count=1 -timeout 60m ./internal/notify -run '^TestExplore' -every-world

# Runs for hours: new seeds, then real processes that are killed again and again.
soak:
	$(MAKE) sim SEEDS=20000 FROM=$$(date +%s) SIM_TIMEOUT=0 RECORD='$(RUNS)'
	$(MAKE) test-crash ROUNDS=200

# Needs the vulnerability database, so lint leaves it out.
vuln:
	$(EACH) $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...
