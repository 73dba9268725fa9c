package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Config selects the benchmarks to run, and their settings.
type Config struct {
	// Only names the benchmarks to run. An empty list means all.
	Only []string
	// Quick keeps each benchmark below 60 seconds.
	Quick bool
	// Self is the path of this program, which also runs workers and stand-ins.
	Self string
	// Fanfare is the path of the product's binary. If it is empty, Run builds one.
	Fanfare string
	// Graph and Trace are the files of T15: an edge list, and lines `user unixtime`.
	Graph, Trace string
	// Dir holds the data directories; "" means the system's directory for temporary files.
	Dir string
	// Progress receives one line for each step.
	Progress io.Writer
}

// Result is a measured value with its baseline and its target.
type Result struct {
	// ID is the target's id, T1 to T18, or the name of a benchmark without a target.
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Baseline is nil if the target is a limit and not a comparison.
	Baseline     *float64 `json:"baseline"`
	BaselineName string   `json:"baseline_name"`
	// Ratio is Value / Baseline, or Baseline / Value if less is better. In both cases a ratio above 1 is
	// better than the baseline.
	Ratio  *float64 `json:"ratio"`
	Target string   `json:"target"`
	// Met reports whether the value meets the target. It is nil if the target is "reported".
	Met *bool `json:"met"`
	// Cost is the measured cost of the value, nil if the cost was not measured.
	Cost *Cost `json:"cost,omitempty"`
	// BaselineCost is the cost of the baseline.
	BaselineCost *Cost `json:"baseline_cost,omitempty"`
	// Latency has times in milliseconds.
	Latency *Latency `json:"latency_ms,omitempty"`
	// Note describes the method of the measurement, in one line.
	Note string `json:"note,omitempty"`
}

// Report holds the results of a run.
type Report struct {
	// Date is the day of the run (UTC), and Fanfare is the version and the commit of the binary.
	Date    string `json:"date"`
	Fanfare string `json:"fanfare"`
	// Full is true if each benchmark ran in its full size, and no benchmark failed.
	Full    bool     `json:"full"`
	Machine Machine  `json:"machine"`
	Results []Result `json:"results"`
	// Failed has the names of the benchmarks that could not be measured, and the reasons.
	Failed []string `json:"failed,omitempty"`
}

// UnknownError is the error for a name in Config.Only that names no benchmark.
type UnknownError struct{ ID string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no benchmark %q: use %s", e.ID, strings.Join(IDs(), ", "))
}

// benchmark measures the targets of one ID.
type benchmark struct {
	id, title string
	run       func(context.Context, *env) ([]Result, error)
}

func benchmarks() []benchmark {
	return []benchmark{
		{"T1", "fan-out on the embedded engine", fanoutEmbedded},
		{"T2", "memory against follower count", memory},
		{"T3", "deliveries a CPU-second on the DynamoDB path", dynamoPath},
		{"T4", "write units a delivery", deliveryUnits},
		{"T5", "queue requests a delivery", queueRequests},
		{"T6", "SQS transport", sqsTransport},
		{"T7", "write units a like", likeUnits},
		{"T8", "writes of a count", countWrites},
		{"T9", "likes of a hot post", hotPost},
		{"T10", "home read under write load", homeRead},
		{"T11", "ordinary posts beside others", fairness},
		{"T12", "post API", postAPI},
		{"T13", "scaling of workers", scaling},
		{"T15", "cost of readers that are away", actives},
		{"T17", "home pages over HTTP", homePages},
		{"T18", "likes over HTTP", likesOverHTTP},
		{pairID, "cost of a standby", pairUp},
		{archiveID, "archive and restore", archiveUp},
		{changesID, "changes on open pages", changesSeen},
		{streamID, "live homes", liveHomes},
		{hostileID, "one user's home while others misbehave", hostile},
	}
}

// IDs returns the names of all benchmarks.
func IDs() []string {
	var ids []string
	for _, b := range benchmarks() {
		ids = append(ids, b.id)
	}
	return ids
}

// Run runs benchmarks one after another. If a benchmark fails, the remaining benchmarks still run, and
// the returned error includes the failure.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	for _, id := range cfg.Only {
		if !slices.Contains(IDs(), id) {
			return Report{}, &UnknownError{id}
		}
	}
	dir, err := os.MkdirTemp(cfg.Dir, "fanfare-bench-")
	if err != nil {
		return Report{}, fmt.Errorf("bench: make a directory for data: %w", err)
	}
	defer func() {
		if removed := os.RemoveAll(dir); removed != nil {
			err = errors.Join(err, fmt.Errorf("bench: remove its data: %w", removed))
		}
	}()
	if cfg.Fanfare == "" {
		if cfg.Fanfare, err = buildFanfare(ctx, dir); err != nil {
			return Report{}, err
		}
	}
	report.Date, report.Machine = time.Now().UTC().Format(time.DateOnly), thisMachine(dir)
	if report.Fanfare, err = versionOf(ctx, cfg.Fanfare); err != nil {
		return report, err
	}
	var failed error
	for _, b := range benchmarks() {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, b.id) {
			continue
		}
		e := &env{Config: cfg, id: b.id, dir: dir}
		e.say("%s", b.title)
		results, err := e.run(ctx, b)
		report.Results = append(report.Results, results...)
		if err != nil {
			err = fmt.Errorf("bench %s: %w", b.id, err)
			report.Failed = append(report.Failed, err.Error())
			failed = errors.Join(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
		// The next benchmark must not inherit the heap of this benchmark.
		debug.FreeOSMemory()
	}
	report.Full = len(cfg.Only) == 0 && !cfg.Quick && failed == nil
	return report, failed
}

// env is the configuration and the directory of one benchmark.
type env struct {
	Config
	id, dir string
}

// quickly is the time limit of a benchmark with Quick.
const quickly = time.Minute

// run runs a benchmark, within quickly if Quick is set.
func (e *env) run(ctx context.Context, b benchmark) ([]Result, error) {
	if e.Quick {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, quickly, fmt.Errorf("not done in the %v that --quick allows: run it without", quickly))
		defer cancel()
	}
	results, err := b.run(ctx, e)
	if err != nil {
		err = ctxErr(ctx, err)
	}
	return results, err
}

// say writes a line of progress.
func (e *env) say(format string, args ...any) {
	// An error of Fprintf is ignored, because nothing depends on progress lines.
	_, _ = fmt.Fprintf(e.Progress, "%s  %-4s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly), e.id}, args...)...)
}

// size returns full, or quick if Quick is set.
func (e *env) size(full, quick int) int {
	if e.Quick {
		return quick
	}
	return full
}

// tempDir makes a directory for one step. The caller removes it.
func (e *env) tempDir() (dir string, remove func() error, err error) {
	if dir, err = os.MkdirTemp(e.dir, e.id+"-"); err != nil {
		return "", nil, err
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// beside adds a baseline in the same unit to r, for a value that is better if it is higher.
func (r Result) beside(name string, baseline float64) Result {
	ratio := r.Value / baseline
	r.BaselineName, r.Baseline, r.Ratio = name, &baseline, &ratio
	return r
}

// below adds a baseline in the same unit to r, for a value that is better if it is lower.
func (r Result) below(name string, baseline float64) Result {
	ratio := baseline / r.Value
	r.BaselineName, r.Baseline, r.Ratio = name, &baseline, &ratio
	return r
}

// reach sets the target, and whether the value meets the target.
func (r Result) reach(target string, met bool) Result {
	r.Target, r.Met = target, &met
	return r
}

// reported marks a value that has no target.
func (r Result) reported() Result {
	r.Target, r.Met = "reported", nil
	return r
}

// ctxErr returns the reason for which ctx ended, or else err.
func ctxErr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// collect runs the garbage collector, so that a measurement does not pay for older garbage.
func collect() { runtime.GC() }
