package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"fanfare/internal/config"
	"fanfare/internal/replay"
)

const replayHelp = `Loads a real edge list into a running Fanfare, publishes posts and likes over
HTTP, waits until the system is quiet, then reads every home and every count
back and compares with its own oracle. It exits 1 if anything is missing,
unexpected, duplicated or wrong.

Every run makes users of its own, so it can run against a system that holds data;
the target has to issue development tokens (FANFARE_AUTH=dev). The same seed makes
the same load.

A delivery is a post in a home, the author's own home among them. Units are read from
the processes that --admin names; wcu_per_delivery is the write units of the fan-out
flow for each delivery to a follower, wcu_per_like those of the like flow for each like.

With --journal every call is recorded before it is sent, and its answer after. When a
run was cut short, --check reads the journal and only verifies: what was answered with
success must be there, what was not answered may be there, once.`

// newReplayCommand makes `fanfare replay`; environ is as os.Environ returns it.
func newReplayCommand(environ []string) *cobra.Command {
	var (
		cfg             replay.Config
		graph, check    string
		directed        bool
		maxUsers        int
		admin           []string
		asJSON          bool
		notWithChecking = []string{"graph", "journal", "directed", "max-users", "posts", "likes", "rate", "seed"}
	)
	cmd := &cobra.Command{
		Use:   "replay --graph FILE",
		Short: "Play a real social graph and verify every home and count",
		Long:  replayHelp,
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&graph, "graph", "", "edge `file`, plain or .gz: 'a b' a line")
	flags.BoolVar(&directed, "directed", false, "'a b' means only that a follows b")
	flags.IntVar(&maxUsers, "max-users", 0, "keep the subgraph of the `N` best-connected users (0: all)")
	flags.IntVar(&cfg.Posts, "posts", 500, "posts to publish")
	flags.IntVar(&cfg.Likes, "likes", 5000, "likes to give, each of another user or post")
	flags.Float64Var(&cfg.Rate, "rate", 0, "posts and likes a second (0: as fast as it goes)")
	flags.StringVar(&cfg.Target, "target", "", "base `URL` of the API (default http://FANFARE_HTTP_ADDR)")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "what decides the load")
	flags.StringSliceVar(&admin, "admin", nil, "admin `addresses` of all processes (default FANFARE_ADMIN_ADDR, if it answers)")
	flags.IntVar(&cfg.Concurrency, "concurrency", 64, "calls in flight")
	flags.StringVar(&cfg.Journal, "journal", "", "record every call and answer in a new `file`")
	flags.StringVar(&check, "check", "", "only verify the calls of a journal `file`")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.MarkFlagsOneRequired("graph", "check")
	for _, name := range notWithChecking {
		cmd.MarkFlagsMutuallyExclusive("check", name)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		switch {
		case maxUsers < 0 || maxUsers == 1:
			return wrongUse(errors.New("--max-users: at least 2 users, or 0 for all"))
		case cfg.Posts < 0 || cfg.Likes < 0 || cfg.Rate < 0:
			return wrongUse(errors.New("--posts, --likes and --rate cannot be negative"))
		case cfg.Concurrency < 1:
			return wrongUse(errors.New("--concurrency: at least 1"))
		}
		env, err := config.Load(environ, config.Tool)
		if err != nil {
			return err
		}
		if cfg.Target == "" {
			cfg.Target = "http://" + env.HTTPAddr
		}
		cfg.Log = cmd.ErrOrStderr()
		cfg.Admin = admin
		if !flags.Changed("admin") {
			cfg.Admin = nil
			if err := replay.Probe(ctx, env.AdminAddr); err != nil {
				fmt.Fprintf(cfg.Log, "no units and queue depths: %v\n", err)
			} else {
				cfg.Admin = []string{env.AdminAddr}
			}
		}
		var report replay.Report
		if check != "" {
			report, err = replay.Check(ctx, check, cfg.Service)
		} else {
			if cfg.Graph, err = replay.ReadGraph(graph, directed); err != nil {
				return err
			}
			if maxUsers > 0 {
				cfg.Graph = cfg.Graph.BestConnected(maxUsers)
			}
			report, err = replay.Run(ctx, cfg)
		}
		if errors.Is(err, replay.ErrUsage) {
			return wrongUse(err)
		}
		if err != nil {
			return err
		}
		if asJSON {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
		} else {
			_, err = fmt.Fprint(cmd.OutOrStdout(), report)
		}
		if err != nil {
			return fmt.Errorf("print the report: %w", err)
		}
		if !report.Exact() {
			return fmt.Errorf("not exact: missing %d, unexpected %d, duplicated %d, wrong counts %d; the lines above name some",
				report.Missing, report.Unexpected, report.Duplicated, report.WrongCounts)
		}
		return nil
	}
	return cmd
}
