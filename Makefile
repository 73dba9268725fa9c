# make up        runs all of Fanfare in one process, on the embedded engine; needs only Go
# make check     tests the product's module while you write: no emulator, no browser, no race detector; needs only Go
# make test      tests all modules, on the embedded engine and on AWS in LocalStack, and each page in a browser; it
#                installs its tools
# make test-all  runs, after make test, the slow tests, and the product's tests with the race detector and whole storms
GO ?= go
SEEDS ?= 1000
FROM ?= 1
FLAGS ?=
ROUNDS ?= 20
# Build tags of the tests: e2e adds the tests that need an emulator or a browser, slow the tests that build the product
# again, need many tools, or repeat a check of another test in a further way.
TAGS ?= e2e,invariants
# No package registry has Terraform, so its tests are among the slow ones of a machine that has it.
SLOW_TAGS = $(TAGS),slow$(if $(shell command -v terraform),$(comma)terraform)
comma := ,
# No debugger reads these binaries. Without debug tables they link in half the time. lint runs vet. With -trimpath and
# without cgo the tests use the packages that are compiled for the commands, also the go commands that tests run. The
# race detector needs cgo.
FAST = -vet=off -ldflags=-w
check test: export CGO_ENABLED = 0
check test test-all lint tool-compile: export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
# Some packages mostly wait for an emulator, so one more package than there are processors runs at once.
AT_ONCE = -p $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# MUTANT_SEEDS is the number of seeds of the simulation for each mutant. SAMPLE is the number of drawn
# mutants; 0 means all.
MUTANT_SEEDS ?= 300
SAMPLE ?= 0
# The time limit of the simulation; 0 means no limit.
SIM_TIMEOUT ?= 60m

# Runs a command in each module: the product, bench, release and e2e.
EACH = scripts/each-module.sh
# Runs go test, and notes the times of tests.
GO_TEST = scripts/with-times.sh scripts/go-test.sh
EACH_TEST = scripts/with-emulators.sh scripts/with-times.sh $(EACH) --at-once $(CURDIR)/scripts/go-test.sh
LINT = $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

.PHONY: up up-aws build module release changes check test-times test-modules test-tools test-all-tools test test-all test-long test-crash import-crash test-upgrade test-platform test-register lint bench day sim sim-reach sim-commit sim-embedded sim-planted histories mutants spec spec-traces explore soak vuln image pages

up: bin/fanfare
	./bin/fanfare up --demo $(FLAGS)

# Runs Fanfare as in production without Docker: LocalStack and three daemons. Ctrl-C stops them.
up-aws: build
	scripts/up-aws.sh

build:
	CGO_ENABLED=0 $(GO) build -tags grpcnotrace -trimpath -o bin/ ./cmd/...

# Builds the image from the base image with a digest that you have checked, because a tag may later name another image.
# First: docker buildx imagetools inspect golang:1.26.8-trixie. Then:
# make image DIGEST=sha256:… IMAGE=registry/fanfare:v0.2.0
IMAGE ?= fanfare
image:
	@echo '$(DIGEST)' | grep -Eqx 'sha256:[0-9a-f]{64}' || { echo 'image: give the digest of the base: make image DIGEST=sha256:…' >&2; exit 2; }
	docker build -f deploy/Dockerfile --build-arg DIGEST=$(DIGEST) -t $(IMAGE) .

bin/fanfare: FORCE
	CGO_ENABLED=0 $(GO) build -tags grpcnotrace -trimpath -o $@ ./cmd/fanfare
FORCE:

# Renames the module everywhere: make module MODULE=example.org/team/fanfare
module:
	scripts/module.sh $(MODULE)

# Makes the files of a release in bin/release: archives, SBOMs, images, the chart, the TypeScript client, provenance
# and checksums. The same commit and the same Go make the same bytes: make release VERSION=v0.2.0
release:
	scripts/node-tools.sh install client/typescript
	$(GO) run -C release . build $(VERSION)

# Run this before release: it moves the fragments in changes/ to CHANGELOG.md, below VERSION. docs/INSTALL.md
# then names VERSION.
changes:
	$(GO) run -C release . changes $(VERSION)

# Builds the commands that show and measure tests.
test-times:
	$(GO) build -C tools -o ../bin/ ./testtimes gotest.tools/gotestsum

# Go runs everything at each call of these three targets; `go test ./...` runs only what a change has reached.
check: test-times
	$(GO_TEST) $(AT_ONCE) -short -tags invariants $(FAST) -timeout 15m ./...

# Downloads the modules that the go commands of tests need, so that the tests reach only loopback.
test-modules:
	$(EACH) $(GO) mod download
	$(GO) mod download -C examples/testcontainers
	$(GO) mod download -modfile=tools/go.mod

# The installations wait for downloads most of the time, so all of them run at once, beside a compilation of the tests.
TOOLS = emulators node-client node-react producer-python chromium axe compile
SLOW_TOOLS = schemathesis redocly deploy-lint helm promtool systemd
.PHONY: $(TOOLS:%=tool-%) $(SLOW_TOOLS:%=tool-%)
test-tools: test-modules
	$(MAKE) -j16 $(TOOLS:%=tool-%)

test-all-tools: test-modules
	$(MAKE) -j16 COMPILED='$(COMPILED)' $(TOOLS:%=tool-%) $(SLOW_TOOLS:%=tool-%)

tool-emulators:
	scripts/with-emulators.sh --install
tool-node-client tool-node-react: tool-node-%:
	scripts/node-tools.sh install $(if $(filter client,$*),client/typescript,examples/react)
tool-producer-python:
	scripts/producer-python.sh install
tool-chromium:
	scripts/chromium.sh install
tool-axe:
	scripts/axe.sh install
tool-schemathesis tool-deploy-lint: tool-%:
	scripts/python-tools.sh install $*
tool-redocly:
	scripts/node-tools.sh install scripts/redocly
tool-helm:
	scripts/helm.sh install
tool-promtool:
	scripts/need.sh promtool:prometheus
tool-systemd:
	scripts/need.sh systemd-analyze:systemd
# Compiles the tests without linking them, and builds the commands once for all tests that run them (TEST_COMMANDS).
# COMPILED has the flags of go test that choose what is compiled.
COMPILED = -tags $(TAGS)
test-all-tools: COMPILED = -race -tags $(SLOW_TAGS)
COMMANDS = $(CURDIR)/bin/commands
tool-compile: test-times
	CGO_ENABLED=0 $(GO) build -tags grpcnotrace -trimpath -ldflags=-w -o $(COMMANDS)/ ./cmd/fanfare
	$(EACH) $(GO) list -export -deps -test $(COMPILED) -f '{{""}}' ./... >/dev/null

# -short runs Watermill's conformance suite in its short mode. TEST_WHOLE draws all seeds and builds planted bugs (internal/stormtest); test-long,
# sim and test-crash test more. With GOPROXY=off a test fails if its go command needs a module that
# test-modules does not download. go.sum has the sums of the modules (GOSUMDB=off).
OFFLINE = GOPROXY=off GOSUMDB=off TEST_COMMANDS=$(COMMANDS)
test: test-tools
	$(OFFLINE) $(EACH_TEST) $(AT_ONCE) -short -tags $(TAGS) $(FAST) -timeout 30m ./...

# A storm takes five times as long with the race detector, and a few seeds show a race. So the first run of test-all draws
# a fifth of the seeds, with the detector, and the second run draws all of them without it.
STORMS = $(shell git grep -lE 'internal/(stormtest|planttest)"' -- 'internal/*_test.go' 'client/*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,')
test-all: test-all-tools
	$(OFFLINE) TEST_WHOLE=1 $(EACH_TEST) $(AT_ONCE) -race -short -tags $(SLOW_TAGS) $(FAST) -timeout 40m ./...
	$(OFFLINE) TEST_WHOLE=1 scripts/with-emulators.sh scripts/with-times.sh scripts/go-test.sh $(AT_ONCE) -short -tags $(TAGS) $(FAST) -timeout 40m $(STORMS)

test-long: test-all-tools
	scripts/with-emulators.sh $(GO) test -race -tags $(TAGS) -timeout 60m ./internal/queue/... ./internal/table/...
	scripts/with-emulators.sh $(GO) test -C e2e -race -tags $(SLOW_TAGS) -timeout 60m .
	$(MAKE) mutants SAMPLE=100

# Kills, stops and replaces the real binaries under load, loses their disk, and puts a bad network between the
# binaries and AWS, and between `fanfare up` and its archive. A round waits a minute until the messages of a killed
# process are redelivered, so several rounds run at once.
CRASH_TIMEOUT ?= 90m
test-crash:
	scripts/with-emulators.sh $(GO) test -C e2e -tags $(TAGS),slow,crash -timeout $(CRASH_TIMEOUT) -v -parallel 4 . \
		-run 'Crash|Stopped|BadNetwork|RollingExchange|LostMachine|RestoredToItsSeconds|WithoutTheArchive' -crash-rounds $(ROUNDS) -network-rounds 4 -exchange-requests 20000 \
		-archive-rounds $(ROUNDS) -archive-times 50 -store-rounds $(ROUNDS) -store-toxics 4

# Imports the real graph with 20,000 posts of two years, and kills the import three times. It prints the
# deliveries a second of an import and of a replay. It takes minutes.
import-crash:
	$(GO) test -C e2e -timeout 60m -v . -run '^TestAnImportThatIsKilledThreeTimesIsExact$$' \
		-import-users 0 -import-posts 20000

# Replaces the daemons of the former release by daemons of this tree, in each order and back, with kills,
# under load. It builds the former release from its tag, which CHANGELOG.md names. Before the first
# release it builds this tree twice.
test-upgrade:
	scripts/with-emulators.sh $(GO) test -C e2e -tags $(TAGS),upgrade -timeout 60m -v -parallel 2 . \
		-run 'TwoVersions|ChangesItsVersion|FormerRelease' -all-upgrades

# Tests the alerts in a real Prometheus on real processes in outages, the binaries with every environment
# that the chart renders from hostile values, and the alarms of the stack on new recordings of the real
# transport. It takes minutes.
test-platform: test-all-tools
	scripts/with-emulators.sh $(GO) test -C e2e -tags $(TAGS),slow,platform -timeout 60m -v -parallel 8 -run '^TestPlatform' .
	$(GO) test -C e2e -tags $(TAGS),slow -timeout 30m -v . -run '^TestTheChartTakesWhatPeopleWriteOrRefusesIt$$' -every-binary
	$(GO) test -C e2e -tags $(TAGS) -timeout 30m -v . -run '^TestTheAlarmsOfTheStackFire' -record

# Tests the store of a register that a team runs by itself (docs/decisions/0062-own-register.md): the contract on its real
# binary, and power cuts. It builds the binary once, which takes minutes, and mounts disks, so it needs root.
test-register:
	scripts/versitygw.sh install
	scripts/versitygw.sh run $(GO) test -count=1 -tags e2e,register -v -run 'Versitygw|PowerCut' ./internal/objects

# Writes the Go code of the pages (*.templ), with the generator that fits the module of templ.
pages:
	$(GO) run github.com/a-h/templ/cmd/templ@$$($(GO) list -m -f '{{.Version}}' github.com/a-h/templ) generate -path internal

# govet is one of the linters, and has all analyzers of go vet.
lint:
	test -z "$$(gofmt -l $$(git ls-files '*.go'))"
	$(MAKE) pages && git diff --exit-code -- '*_templ.go'
	$(EACH) $(GO) mod tidy -diff
	$(EACH) $(LINT) run ./...
	$(GO) tool -modfile=tools/go.mod actionlint
	$(GO) vet -C examples/testcontainers -tags docker ./...

# Measures each target beside its baseline; FLAGS="--quick" or "--only T1,T3". Without Redis or PostgreSQL
# the results lack their rows. The results are also in bin/bench.json.
bench:
	mkdir -p bin
	-scripts/need.sh redis-server:redis-server pg_ctlcluster:postgresql
	$(GO) run -C bench . --json ../bin/bench.json $(FLAGS)

# Runs a day of 10 million users at 1 : 1,000 in virtual time, on demand and with provisioned capacity
# that follows the load: cost, throttling, delays. DAY=evening runs an hour of the peak at 1 : 100, and
# FLAGS="-day-json FILE" writes the report. It takes minutes, and 6 GB of memory.
DAY ?= all
day:
	$(GO) test -C bench -count=1 -timeout 120m -v -run '^TestADayOfANetworkOnBothBillingModes$$' . -day $(DAY) $(FLAGS)

# The simulation is deterministic: it shrinks a seed that fails, and prints the command that replays the
# seed. sim-reach also fails if fewer than one seed of a hundred reaches each rare state, or performs each
# operation of the product under faults (internal/sim/operations.go). sim-embedded runs seeds on the
# embedded engine, over a disk that fails. sim-commit takes its seeds from the commit, so each commit runs
# new seeds. sim-commit, sim-embedded and soak append their runs to internal/sim/runs.jsonl, unless the
# tree has uncommitted changes.
RUNS = $(if $(shell git status --porcelain -- . ':!internal/sim/runs.jsonl' ':!docs/BUGS.md'),,-record runs.jsonl -commit $(shell git rev-parse HEAD | cut -c1-12))
sim-commit sim-embedded: RECORD = $(RUNS)
sim-commit: SEEDS = 5000
sim-commit: FROM = $(shell echo $$((0x$$(git rev-parse HEAD | cut -c1-15))))
sim sim-reach sim-commit sim-embedded:
	$(GO) test -tags invariants -c -o bin/sim.test ./internal/sim
	cd internal/sim && ../../bin/sim.test -test.timeout $(SIM_TIMEOUT) -test.v -test.run '^TestSeeds$$' -seeds $(SEEDS) -from $(FROM) $(if $(filter sim-reach,$@),-reach) $(if $(filter sim-embedded,$@),-embedded) $(RECORD)
	$(if $(RECORD),$(GO) test ./docs -run RecordOfRuns -update)

# Tests the simulation: the simulation has to find each planted bug within 1,000 seeds.
sim-planted:
	$(GO) test -tags invariants -c -o bin/sim.test ./internal/sim
	cd internal/sim && ../../bin/sim.test -test.timeout 60m -test.run '^TestEveryPlantedBugIsFound$$' -planted
	$(GO) test -count=1 ./internal/archive ./internal/archiving ./internal/disk ./internal/restore ./internal/stream ./internal/follow ./internal/pair -run '^TestEveryPlantedBugIsFound$$' -planted

# Checks some thousand short histories of follows, reposts and likes, of the simulation and of real processes. It
# also checks that the models refuse the histories of the product with planted bugs. It takes minutes.
histories:
	$(GO) test -C e2e -tags invariants -timeout 30m -v ./histories -planted -from $(FROM)
	$(GO) test -C e2e -timeout 30m -v . -run '^TestHistoriesOfTheEmbeddedEngine$$'

# Tests the tests: some test has to fail after a change at one place of the product. All mutants take
# hours; test-long draws a hundred mutants by the commit.
mutants:
	$(GO) run ./internal/mutants -seeds $(MUTANT_SEEDS) -sample $(SAMPLE) $(FLAGS)

# Checks the models of the protocols. Then it checks each model without each rule, and such a check has to fail.
# SIZE=large adds larger models.
spec:
	scripts/spec.sh install
	scripts/spec.sh run $(FLAGS)

# Checks traces of the simulation against the models of likes and of homes, in one start of TLC for each
# model: each write of the product has to be a step of the model. PLANTED=1 also checks planted bugs,
# whose traces the models have to refuse.
TRACES ?= 500
spec-traces:
	scripts/spec.sh install
	$(GO) test -c -o bin/sim.test ./internal/sim
	scripts/spec.sh traces $(TRACES) $(FROM) $(CURDIR)/bin/sim.test
	$(if $(PLANTED),cd internal/sim && ../../bin/sim.test -test.timeout 0 -test.run '^TestTheModelsRefusePlantedBugs$$' -planted -traces 200)

# Runs every order of steps in the small worlds of notifications, including the worlds with millions of
# states. It takes minutes.
explore:
	$(GO) test -count=1 -timeout 60m ./internal/notify -run '^TestExplore' -every-world

# Runs for hours: first new seeds, and then real processes that are killed again and again.
soak:
	$(MAKE) sim SEEDS=20000 FROM=$$(date +%s) SIM_TIMEOUT=0 RECORD='$(RUNS)'
	$(MAKE) test-crash ROUNDS=200 CRASH_TIMEOUT=0

# Runs govulncheck. It needs the vulnerability database, so lint does not run it.
vuln:
	$(EACH) $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...
