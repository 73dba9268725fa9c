// Command bench measures Fanfare beside baselines. Each benchmark runs the product's own code. In the
// same run on the same machine, it also runs the code that a team would write without Fanfare. Timings
// are for people and for ratios. Numbers that do not depend on the machine (capacity units, queue
// requests) are counted exactly, and tests of the packages check these numbers, too.
//
// No test may wait for the program, and no package imports it. It stops every server, worker, Redis and
// PostgreSQL that it started, by process id, and removes its one temporary directory.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fanfare/bench/standin"
	"fanfare/internal/daemon"
)

const help = `Measures this machine: each number stands beside a baseline of the same run and its
target (bench/README.md explains the table). It starts servers, workers and, where they
are installed, Redis and PostgreSQL, on free ports and in a temporary directory, and stops
them. It does not touch a Fanfare, a Redis or a PostgreSQL that runs.

Let nothing else run. A full run takes about half an hour, and 3 GB of disk.`

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

func run(args, environ []string, stdout, stderr io.Writer) int {
	ctx, stop := daemon.Signals(context.Background())
	defer stop()
	began := false // an error before the command's own work means wrong use
	root := rootCommand(stdout, stderr)
	root.AddCommand(workerCommand(environ, stdout), standInCommand(), plainCommand(stdout))
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return daemon.ExitOK
	}
	// An error of Fprintf is ignored: if stderr is closed, nobody can read a message.
	_, _ = fmt.Fprintf(stderr, "bench: %s\n", daemon.OneLine(err))
	if _, unknown := errors.AsType[*UnknownError](err); unknown || !began {
		return daemon.ExitUsage
	}
	return daemon.ExitFailure
}

func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	cfg := Config{Progress: stderr}
	var jsonFile string
	c := &cobra.Command{
		Use: "bench", Short: "Measure speed and cost beside baselines", Long: help,
		Args: func(c *cobra.Command, args []string) error {
			return errors.Join(cobra.NoArgs(c, args), c.ValidateFlagGroups()) // checks the flags before the work begins
		},
		SilenceErrors: true, SilenceUsage: true,
	}
	c.SetOut(stdout)
	c.SetErr(stderr)
	c.CompletionOptions.DisableDefaultCmd = true
	c.Flags().StringSliceVar(&cfg.Only, "only", nil, "run only these: "+strings.Join(IDs(), ","))
	c.Flags().BoolVar(&cfg.Quick, "quick", false, "take at most a minute for each, and be less exact")
	c.Flags().StringVar(&cfg.Dir, "dir", "", "where to make data directories (default: the system's temporary directory)")
	c.Flags().StringVar(&cfg.Graph, "graph", "", "the edge list of T15: lines `a b`, a follows b (default: a network that it makes)")
	c.Flags().StringVar(&cfg.Trace, "trace", "", "the activity of T15: lines `user unixtime`, each a home read and a post")
	c.MarkFlagsRequiredTogether("graph", "trace")
	c.Flags().StringVar(&cfg.Fanfare, "fanfare", "", "the fanfare `binary` to measure (default: build it)")
	c.Flags().StringVar(&jsonFile, "json", "", "write the results to this `file`, too, as one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if cfg.Self, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		report, err := Run(c.Context(), cfg)
		if _, unknown := errors.AsType[*UnknownError](err); unknown {
			return err
		}
		err = errors.Join(err, report.WriteTable(stdout))
		if jsonFile == "" {
			return err
		}
		return errors.Join(err, writeFile(jsonFile, report))
	}
	return c
}

// writeFile writes the results to a file, as JSON.
func writeFile(name string, r Report) error {
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		return err
	}
	return os.WriteFile(name, text.Bytes(), 0o600)
}

// workerCommand runs a worker process of the scaling benchmark. The benchmark starts the process.
func workerCommand(environ []string, stdout io.Writer) *cobra.Command {
	cfg := WorkerConfig{Environ: environ}
	c := &cobra.Command{Use: "worker", Short: "Run a worker of the scaling benchmark", Hidden: true, Args: cobra.NoArgs}
	c.Flags().StringVar(&cfg.Table, "table", "", "`URL` of the DynamoDB stand-in")
	c.Flags().StringVar(&cfg.Queue, "queue", "", "`URL` of the SQS stand-in")
	c.Flags().IntVar(&cfg.Chunks, "chunks", 4, "chunks handled at once")
	c.Flags().IntVar(&cfg.Writers, "writers", 2, "concurrent writes of a page")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return Work(c.Context(), cfg, func() error {
			_, err := fmt.Fprintln(stdout, "ready")
			return err
		})
	}
	return c
}

// standInCommand runs a stand-in for DynamoDB. Benchmarks start it as a process.
func standInCommand() *cobra.Command {
	return &cobra.Command{
		Use: "standin", Short: "Run the DynamoDB stand-in", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return standin.Main(c.Context()) },
	}
}

// versionOf returns the line in which a fanfare binary prints its version and its commit.
func versionOf(ctx context.Context, binary string) (string, error) {
	line, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("bench: ask %s for its version: %w", binary, err)
	}
	return strings.TrimSpace(string(line)), nil
}

// buildFanfare builds the product in the product's own module, so that dependencies have the versions of
// a release.
func buildFanfare(ctx context.Context, dir string) (string, error) {
	hint := "run bench in its own directory, or give --fanfare"
	root, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Module.Dir}}", "fanfare/cmd/fanfare").Output()
	if err != nil {
		return "", fmt.Errorf("bench: find the source of fanfare: %w: %s", err, hint)
	}
	binary := filepath.Join(dir, "fanfare")
	c := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(root)), "-trimpath", "-buildvcs=auto", "-o", binary, "./cmd/fanfare") // the version names the commit
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("bench: build fanfare: %w: %s: %s", err, out, hint)
	}
	return binary, nil
}
