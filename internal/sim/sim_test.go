package sim

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/stormtest"
)

var (
	seeds = flag.Uint64("seeds", 0, "how many seeds to run; 0 for 50, and fewer in the inner loop (see stormtest)")
	from  = flag.Uint64("from", 1, "the first seed")
	trail = flag.Bool("trail", false, "print the whole trace of a seed that fails")

	keepOnly   = flag.String("keep", "", "the only operations to make, such as 3,17-20; none for none")
	faultsOnly = flag.String("faults", "", "the only kinds of fault, separated by commas; none for none")
	inArchive  = flag.Bool("archived", false, "with -embedded: give each world an archive")
	embedded   = flag.Bool("embedded", false, "keep the table and the queues in the embedded engine, on a disk that fails")
	shrink     = flag.Int("shrink", mostReruns, "how many reruns may shrink a seed that fails; 0 shrinks none")
)

// mostReruns is the maximum number of reruns, so that shrinking takes some seconds.
const mostReruns = 200

func TestSeeds(t *testing.T) {
	fired, met, reached, performs := Counters{}, Counters{}, Counters{}, Counters{}
	violations, ran, shrunk, calls := 0, 0, 0, 0
	var days float64 // a time.Duration cannot exceed 292 years
	cpu := cpuTime(t)
	keep, err := ParseKeep(*keepOnly)
	require.NoError(t, err)
	kinds, err := ParseFaults(*faultsOnly)
	require.NoError(t, err)
	o := Options{KeepTrace: *trail, Keep: keep, Faults: kinds, Watch: *printReached, Embedded: *embedded, Archived: *inArchive}
	masked := keep != nil || kinds != nil
	for seed := *from; seed < *from+*seeds; seed++ {
		res := Run(t, seed, o)
		ran++
		days += res.Lived.Hours() / 24
		if *seeds <= 20 {
			t.Logf("seed %d: %s", seed, res.Shape)
		}
		for kind, n := range res.Fired {
			fired[kind] += n
		}
		for point, n := range res.Met {
			met[point] += n
			calls += n
		}
		for state := range res.Reached {
			reached[state]++
		}
		for what := range res.Performed {
			performs[what]++
		}
		if !masked {
			ranTraces[seed] = res.Trace
		}
		if !masked && res.Operations < res.Shape.Operations {
			t.Errorf("seed %d made %d operations, want %d at least", seed, res.Operations, res.Shape.Operations)
		}
		if len(res.Violations) > 0 {
			violations += len(res.Violations)
			for _, line := range res.Lines {
				t.Log(line)
			}
			t.Errorf("%s: %s", res, res.Shape)
			t.Errorf("%s; replay with: go test ./internal/sim -run TestSeeds -from %d -seeds 1%s -trail", res, seed, o.flags())
			for _, v := range res.Violations {
				t.Errorf("  %s", v)
			}
			// Three reports are enough, because most of the failing seeds find the same defect.
			if shrunk++; shrunk <= 3 && *shrink > 0 && !masked {
				t.Error(Shrink(t, o, res, *shrink))
			}
		}
		if violations > 20 || (*stopSoon && violations > 0) {
			break
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(fired)) {
		t.Logf("%6d %s", fired[kind], kind)
	}
	if violations == 0 && !masked {
		checkCoverage(t, fired, met)
		checkReached(t, reached)
		checkPerformed(t, performs)
		if *embedded && *seeds >= 50 {
			checkDiskFaults(t, fired)
		}
		if *embedded && (*inArchive && *seeds >= 100 || *seeds >= 1000) {
			checkArchives(t, fired)
		}
	}
	cpu = cpuTime(t) - cpu
	summary = fmt.Sprintf("%d seeds, %d violations; %.0f virtual days, %d calls, %.0f calls a CPU-second",
		ran, violations, days, calls, float64(calls)/max(cpu.Seconds(), .01))
	if *record != "" && !masked {
		appendRun(t, *record, seedRun{today(), *commit, engineName(), *from, ran, math.Round(days), calls, math.Round(cpu.Hours()*1e4) / 1e4, violations})
	}
}

// cpuTime returns the processor time that the process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// checkCoverage fails if the seeds of a run never fired one of the faults, or never killed a
// process at one of the crash points.
func checkCoverage(t *testing.T, fired, met Counters) {
	t.Helper()
	if *seeds >= 200 {
		for _, kind := range Faults() {
			if fired[kind] == 0 && (!*embedded || !slices.Contains(notOnEngine(), kind)) {
				t.Errorf("the fault %q never fired in %d seeds", kind, *seeds)
			}
		}
	}
	points := crashPoints()
	for point := range met {
		assert.Containsf(t, points, point, "%q is a crash point that crashpoints.go does not list", point)
	}
	if *seeds < 500 {
		return
	}
	for _, point := range points {
		for _, when := range []string{"before", "after"} {
			if fired["crash "+when+" "+point] == 0 {
				t.Errorf("no process was killed %s %q in %d seeds", when, point, *seeds)
			}
		}
	}
}

// summary is the last line of the output of a run of seeds.
var summary string

// TestMain keeps the simulation on one thread, which costs nothing, because only one call runs at a
// time. The timers of a bubble share one context of the race detector (runtime/time.go,
// unlockAndRun), and if two threads run two timers at once, a failed CHECK of ThreadSanitizer ends
// the process. A failed assertion of the product ends the process, too: the trace of the goroutine
// contains the seed.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	if err := os.Setenv("GODEBUG", "tracebacklabels=1,"+os.Getenv("GODEBUG")); err != nil {
		panic(err)
	}
	flag.Parse()
	if *seeds == 0 {
		*seeds = uint64(stormtest.Runs(50))
	}
	dir, err := temporary()
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if summary != "" {
		fmt.Println(summary)
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Println(err)
	}
	os.Exit(code)
}

// temporary gives all files of this process one directory, which a signal that ends the process removes, too.
func temporary() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "fanfare-sim"); err != nil {
		return "", err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() { // ends with the process
		<-ended
		_ = os.RemoveAll(dir) // the process ends, and nobody reads an error
		os.Exit(1)
	}()
	return dir, os.Setenv("TMPDIR", dir)
}

// ranTraces has the trace of each seed that TestSeeds ran with all operations and faults.
var ranTraces = map[uint64]uint64{}

func TestASeedReplaysByteForByte(t *testing.T) {
	last := uint64(100)
	if testing.Short() {
		last = uint64(stormtest.Runs(20))
	}
	for seed := uint64(1); seed <= last; seed++ {
		trace, ran := ranTraces[seed]
		if ran && trace == Run(t, seed, Options{}).Trace {
			continue
		}
		replays(t, seed)
		require.Falsef(t, ran, "seed %d: a run of TestSeeds had another trace, %016x", seed, trace)
	}
}

// replays compares the traces of two runs of a seed.
func replays(t *testing.T, seed uint64) {
	t.Helper()
	first, again := Run(t, seed, Options{}), Run(t, seed, Options{})
	if first.Trace == again.Trace {
		return
	}
	first, again = Run(t, seed, Options{KeepTrace: true}), Run(t, seed, Options{KeepTrace: true})
	for i := range min(len(first.Lines), len(again.Lines)) {
		if first.Lines[i] != again.Lines[i] {
			t.Fatalf("seed %d: line %d differs, after\n%s\nit is one of\n%s\n%s", seed, i,
				strings.Join(first.Lines[max(0, i-12):i], "\n"), first.Lines[i], again.Lines[i])
		}
	}
	t.Fatalf("seed %d: one run had the trace %016x with %d lines, the next %016x with %d lines", seed,
		first.Trace, len(first.Lines), again.Trace, len(again.Lines))
}

// TestWritesPerLike checks the targets T7 and T8: m likes of a post that one aggregator collects in one window
// take m puts and one update of the count.
func TestWritesPerLike(t *testing.T) {
	const fans, aggregators = 400, 3
	for seed := uint64(1); seed <= 10; seed++ {
		res := Run(t, seed, Options{Calm: true, Fans: fans})
		for _, v := range res.Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
		puts, flushes, windows := res.Met["likeagg put likelist"], res.Met["likeagg update likecount"], res.Met["windows"]
		m := float64(fans) / float64(flushes)
		perLike := float64(puts+flushes) / fans
		assert.LessOrEqualf(t, perLike, 1+1/m+0.01, "seed %d: %.3f writes a like with %.1f likes a flush", seed, perLike, m)
		assert.LessOrEqualf(t, flushes, windows*aggregators,
			"seed %d: %d updates of the count in %d windows of %d aggregators", seed, flushes, windows, aggregators)
		t.Logf("seed %d: %d likes, %d puts, %d flushes, %d windows: %.3f writes a like", seed, fans, puts, flushes, windows, float64(puts+flushes)/fans)
	}
}

func TestThePercentagesOfAMixAddUp(t *testing.T) {
	for name, mix := range mixes() {
		all := 0
		for _, of := range mix {
			all += of.percent
		}
		assert.Equal(t, 100, all, name)
	}
}
