package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fanfare/bench"
	"fanfare/bench/standin"
)

const benchHelp = `Measures this machine: each number beside a baseline of the same run and its target
(bench/README.md says how to read it). It starts servers, workers and, if it is
installed, Redis of its own, on free ports and in a temporary directory, and stops
them; a running Fanfare is not touched.

Let nothing else run. A full run takes about ten minutes, and 3 GB of disk.`

// benchCommand makes `fanfare bench`.
func (a *app) benchCommand() *cobra.Command {
	var (
		cfg    bench.Config
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure speed and cost beside baselines",
		Long:  benchHelp,
		Args:  cobra.NoArgs,
	}
	c.Flags().StringSliceVar(&cfg.Only, "only", nil, "only these: "+strings.Join(bench.IDs(), ","))
	c.Flags().BoolVar(&cfg.Quick, "quick", false, "at most a minute each, and less exact")
	c.Flags().StringVar(&cfg.Dir, "dir", "", "where data directories are made (default: the system's for temporary files)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		cfg.Self, cfg.Progress = self, a.stderr
		report, err := bench.Run(c.Context(), cfg)
		if _, unknown := errors.AsType[*bench.UnknownError](err); unknown {
			return wrongUse(err)
		}
		if asJSON {
			return errors.Join(err, report.WriteJSON(a.stdout))
		}
		return errors.Join(err, report.WriteTable(a.stdout))
	}
	c.AddCommand(a.benchModelCommand(), a.benchWorkerCommand(), benchStandInCommand())
	return c
}

// benchWorkerCommand is a process of the scaling benchmark; `fanfare bench` starts it.
func (a *app) benchWorkerCommand() *cobra.Command {
	cfg := bench.WorkerConfig{Environ: a.environ}
	c := &cobra.Command{Use: "worker", Short: "A worker of the scaling benchmark", Hidden: true, Args: cobra.NoArgs}
	c.Flags().StringVar(&cfg.Table, "table", "", "`URL` of the DynamoDB stand-in")
	c.Flags().StringVar(&cfg.Queue, "queue", "", "`URL` of the SQS stand-in")
	c.Flags().IntVar(&cfg.Chunks, "chunks", 4, "chunks handled at once")
	c.Flags().IntVar(&cfg.Writers, "writers", 2, "writes of a page at once")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return bench.Work(c.Context(), cfg, func() error { return a.println("ready") })
	}
	return c
}

// benchStandInCommand is a process that plays DynamoDB; `fanfare bench` starts it.
func benchStandInCommand() *cobra.Command {
	return &cobra.Command{
		Use: "standin", Short: "The DynamoDB stand-in of the benchmarks", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return standin.Main(c.Context()) },
	}
}

// benchModelCommand makes `fanfare bench model`.
func (a *app) benchModelCommand() *cobra.Command {
	var (
		load   = bench.DefaultLoad()
		prices = bench.DefaultPrices()
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "model",
		Short: "Say what a load costs on AWS, from the measured units",
		Long: `Capacity units and queue requests are those that tests hold and
docs/ACCESS_PATTERNS.md lists; workers are sized by --deliveries-per-cpu-second and
the other measured rates. Prices are on-demand ones of us-east-1, in dollars, and
are to be replaced by yours. docs/CAPACITY.md walks through three sizes.`,
		Args: cobra.NoArgs,
	}
	load.Flags(c.Flags())
	prices.Flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(*cobra.Command, []string) error {
		if err := errors.Join(load.Check(), prices.Check()); err != nil {
			return wrongUse(err)
		}
		m := bench.NewModel(load, prices)
		if asJSON {
			return a.printJSON(m)
		}
		_, err := fmt.Fprint(a.stdout, m)
		return err
	}
	return c
}
