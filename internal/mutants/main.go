// Command mutants measures how many changes of the product the tests find. It changes the product at one
// place at a time. On each such mutant it runs the tests of the package, and then seeds of the
// simulation. A mutant that no test and no seed finds is a survivor. Either a test is missing, or the
// edit has no visible effect, and then equivalent.txt names the edit with the reason. The compiler uses
// an edited copy of the source, so no file of the repository changes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// part is a package of which the command makes mutants.
type part struct {
	// alone is true if the simulation without the package's tests has to find most of the mutants,
	// because the simulation runs the whole code of the package.
	alone bool
	// files are the files with mutants. An empty list means all files.
	files []string
	// also is a folder whose tests also test the package.
	also string
	// rim is true for a package outside the core. Such a package has a lower target.
	rim bool
}

func product() map[string]part {
	return map[string]part{
		"internal/likeagg": {alone: true}, "internal/fanout": {alone: true},
		"internal/feed": {}, "internal/feed/access": {also: "internal/feed"}, "internal/feed/home": {also: "internal/feed"},
		"internal/feed/delivery": {also: "internal/feed"}, "internal/feed/removal": {also: "internal/feed"}, "internal/feed/view": {also: "internal/feed"},
		"internal/feed/notices": {also: "internal/feed"}, "internal/notify": {},
		"internal/fault": {also: "internal/feed"}, "internal/memory": {also: "internal/feed"}, "internal/page": {also: "internal/feed"},
		"internal/queue": {files: []string{"consume.go", "session.go"}},
		"internal/live":  {rim: true}, "internal/ops/audit": {rim: true}, "internal/ops/transfer": {rim: true},
		"internal/table/embedded": {rim: true}, "internal/queue/embedded": {rim: true},
		"internal/admin": {rim: true}, "internal/auth": {rim: true},
	}
}

// The targets are percentages of the mutants that are not equivalent.
const (
	targetAll = 95
	targetRim = 85
	targetSim = 75
)

// options has the values of the flags.
type options struct {
	root, equivalent, simulation string
	packages                     map[string]part
	bugs                         []bug
	sample                       int
	seed                         string
	seeds                        int
	jobs                         int
	// slack is added to the CPU time that a suite may use. A suite without progress for the time idle
	// counts as hanging.
	slack, idle time.Duration
	only        string
	// scores is the file for the scores, or "" for no file.
	scores string
	list   bool
	match  *regexp.Regexp
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(ctx)
	if err == nil {
		err = measure(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func parse(ctx context.Context) (options, error) {
	o := options{packages: map[string]part{}, bugs: planted(), simulation: "internal/sim", slack: 10 * time.Second, idle: 30 * time.Second}
	packages := flag.String("packages", "", "folders of the packages, separated by commas; all by default")
	match := flag.String("match", "", "a regular expression for the mutants, as the survivors are printed")
	flag.IntVar(&o.sample, "sample", 0, "how many mutants to draw, equivalent ones included; 0 takes all")
	flag.StringVar(&o.seed, "seed", "", "decides which are drawn; the commit by default")
	flag.IntVar(&o.seeds, "seeds", 300, "seeds of the simulation for each mutant")
	flag.IntVar(&o.jobs, "jobs", 1, "mutants at once")
	flag.StringVar(&o.only, "only", "", "tests or sim: run these alone")
	record := flag.Bool("record", false, "put the scores into internal/mutants/scores.jsonl")
	flag.BoolVar(&o.list, "list", false, "print the mutants and run nothing")
	flag.Parse()
	if flag.NArg() > 0 || !slices.Contains([]string{"", "tests", "sim"}, o.only) {
		return o, errors.New("it takes flags only, and -only tests or -only sim; see -help")
	}
	for folder, p := range product() {
		if *packages == "" || slices.Contains(strings.Split(*packages, ","), folder) {
			o.packages[folder] = p
		}
	}
	if len(o.packages) == 0 {
		return o, fmt.Errorf("-packages %s names none of %v", *packages, slices.Sorted(maps.Keys(product())))
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return o, fmt.Errorf("find the repository: %w", err)
	}
	o.root = filepath.Dir(strings.TrimSpace(string(out)))
	o.equivalent = filepath.Join(o.root, "internal/mutants/equivalent.txt")
	if *record {
		if *match != "" {
			return o, errors.New("-record takes the scores of a draw, not of a -match")
		}
		o.scores = filepath.Join(o.root, "internal/mutants/scores.jsonl")
	}
	if o.seed == "" {
		head := exec.CommandContext(ctx, "git", "-C", o.root, "rev-parse", "HEAD")
		if out, err = head.Output(); err != nil {
			return o, fmt.Errorf("read the commit, or give -seed: %w", err)
		}
		o.seed = strings.TrimSpace(string(out))
	}
	o.match, err = regexp.Compile(*match)
	return o, err
}

// hasTests reports whether a folder has tests. The tests of other packages test a folder without tests.
func hasTests(folder string) bool {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	return err == nil && len(files) > 0
}

// score counts the mutants of a package.
type score struct{ equivalent, mutants, killed, alone, asked int }

// judge decides which mutants are killed, and prints each killed mutant.
type judge struct {
	options
	runner
	out   io.Writer
	tests map[string][]suite // by folder
	sim   suite

	// linked has the folders of the packages that the simulation runs.
	linked map[string]bool

	mu        sync.Mutex
	tallies   map[string]*score // by folder
	survivors []string
	// missed is the number of planted bugs that survive.
	missed int
}

// measure makes the mutants, runs the suites on them, and prints survivors and scores. It fails if a
// score is below its target.
func measure(ctx context.Context, o options, out io.Writer) (err error) {
	named, err := equivalents(o.equivalent)
	if err != nil {
		return err
	}
	sources := map[string]*source{}
	for _, folder := range slices.Sorted(maps.Keys(o.packages)) {
		if sources[folder], err = read(ctx, o.root, folder, o.packages[folder].files); err != nil {
			return err
		}
	}
	if err := fit(sources, named); err != nil {
		return err
	}
	bugs, err := plant(sources, o.bugs, o.match)
	if err != nil {
		return err
	}
	drawn, equivalent := sample(sources, named, o.match, o.seed, o.sample)
	chosen := slices.Concat(bugs, drawn)
	if len(chosen) == 0 {
		return errors.New("no mutant was made")
	}
	if o.list {
		for _, m := range chosen {
			fmt.Fprintln(out, m)
		}
		return nil
	}
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	j := judge{options: o, runner: runner{root: o.root, temp: temp, slack: o.slack, idle: o.idle}, out: out, tests: map[string][]suite{}, tallies: map[string]*score{}}
	if j.overlay, err = writeOverlay(o.root, temp, sources, chosen); err != nil {
		return err
	}
	for folder := range sources {
		j.tallies[folder] = &score{equivalent: equivalent[folder]}
		for _, of := range []string{folder, o.packages[folder].also} {
			if o.only == "sim" || of == "" || !hasTests(filepath.Join(o.root, of)) {
				continue
			}
			tests, err := j.ofPackage(ctx, of)
			if err != nil {
				return err
			}
			j.tests[folder] = append(j.tests[folder], tests)
		}
	}
	if j.linked, err = links(ctx, o.root, o.simulation); err != nil {
		return err
	}
	if o.only != "tests" && slices.ContainsFunc(chosen, func(m mutant) bool { return j.linked[m.folder()] }) {
		if j.sim, err = j.ofSeeds(ctx, o.simulation, o.seeds); err != nil {
			return err
		}
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(o.jobs)
	for i, m := range chosen {
		group.Go(func() error { return j.judge(within, i+1, m) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if o.scores != "" {
		if err := j.record(o.scores); err != nil {
			return err
		}
	}
	return j.report()
}

// judge runs the suites on one mutant. If a test has killed the mutant, the simulation runs on the mutant
// only if the simulation has a separate score for the package.
func (j *judge) judge(ctx context.Context, number int, m mutant) (err error) {
	folder := m.folder()
	var byTest, bySim string
	for _, tests := range j.tests[folder] {
		if byTest == "" {
			if byTest, err = j.kills(ctx, tests, number); err != nil {
				return err
			}
		}
	}
	asked := j.linked[folder] && j.only != "tests" && (j.packages[folder].alone || j.only == "sim")
	if asked || (j.linked[folder] && j.only == "" && byTest == "") {
		if bySim, err = j.kills(ctx, j.sim, number); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if byTest+bySim == "" {
		j.survivors = append(j.survivors, m.String())
		fmt.Fprintf(j.out, "SURVIVES %s\n", m)
	} else {
		fmt.Fprintf(j.out, "killed %s | %s | %s\n", m, byTest, bySim)
	}
	j.count(m, asked, byTest != "", bySim != "")
	return nil
}

// count adds a mutant to the score of its package. Planted bugs are not drawn at random, so they have no
// score. The caller holds mu.
func (j *judge) count(m mutant, asked, byTest, bySim bool) {
	if m.planted {
		if !byTest && !bySim {
			j.missed++
		}
		return
	}
	sc := j.tallies[m.folder()]
	sc.mutants++
	if byTest || bySim {
		sc.killed++
	}
	if asked {
		sc.asked++
	}
	if asked && bySim {
		sc.alone++
	}
}

func (j *judge) report() error {
	fmt.Fprintf(j.out, "\n%d survivors\n", len(j.survivors))
	for _, line := range slices.Sorted(slices.Values(j.survivors)) {
		fmt.Fprintln(j.out, line)
	}
	var sum score
	var target int // in percent of the mutants
	fmt.Fprintf(j.out, "\nof seed %s\n%-24s %8s %10s %8s %8s %18s\n", j.seed, "package", "drawn", "equivalent", "killed", "score", "simulation alone")
	for _, folder := range slices.Sorted(maps.Keys(j.tallies)) {
		sc := j.tallies[folder]
		fmt.Fprintf(j.out, "%-24s %8d %10d %8d %8s %18s\n", folder, sc.mutants+sc.equivalent, sc.equivalent, sc.killed, percent(sc.killed, sc.mutants), percent(sc.alone, sc.asked))
		sum = score{sum.equivalent + sc.equivalent, sum.mutants + sc.mutants, sum.killed + sc.killed, sum.alone + sc.alone, sum.asked + sc.asked}
		if j.packages[folder].rim {
			target += targetRim * sc.mutants
		} else {
			target += targetAll * sc.mutants
		}
	}
	switch {
	case j.missed > 0:
		return fmt.Errorf("%d planted bugs survive", j.missed)
	case j.only == "" && sum.killed*100 < target:
		return fmt.Errorf("tests and simulation kill %s of the mutants, the target is %d %%", percent(sum.killed, sum.mutants), target/sum.mutants)
	case j.only == "" && sum.alone*100 < targetSim*sum.asked:
		return fmt.Errorf("the simulation alone kills %s of the mutants, the target is %d %%", percent(sum.alone, sum.asked), targetSim)
	}
	return nil
}

func percent(part, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(all))
}
