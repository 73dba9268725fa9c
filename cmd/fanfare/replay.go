package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/ops/replay"
)

const replayHelp = `Loads a real edge list into a running Fanfare, publishes posts and likes over
HTTP, waits until the system is quiet, then reads every home and every count
back and compares them with an oracle of its own. It exits 1 if anything is missing,
unexpected, duplicated or wrong.

Every run makes users of its own, so it can run against a system that holds data;
the target has to issue development tokens (FANFARE_AUTH=dev). The same seed makes
the same load.

A delivery is a post in a home, and the author's own home counts too. The processes that
--admin names report capacity units; wcu_per_delivery is the write units of the fan-out
for each delivery to a follower, wcu_per_like those of like counting for each like, and
wcu_by_flow and rcu_by_flow all units. skipped counts deliveries to readers that were away.

With --away, a share of the readers was last seen longer ago than FANFARE_ACTIVE_DAYS when
the first post comes. Their homes are read at the end only, and have to be complete at once;
they are read again after --rebuilt-after, when they have been rebuilt (wcu_returns). The
deliveries of all posts are compared, too: followers that are away are skipped, and only
posts of authors with more followers than --push-limit may be pulled.

Likes are of kind like and of the kinds in FANFARE_REACTIONS, which the target must have, too;
then the counts of each kind are compared.

With --journal it records every call before it sends it, and then the answer. If a run
is cut short, --check reads the journal and only verifies: a call that was answered with
success must have had its effect, a call without an answer may have had it once.`

// replayRun has the settings of one call of `fanfare replay`.
type replayRun struct {
	*app
	cfg          replay.Config
	graph, check string
	directed     bool
	maxUsers     int
	admin        []string
	own          string // the admin address of the environment, "" if flags named addresses
	asJSON       bool
}

func (a *app) replayCommand() *cobra.Command {
	r := &replayRun{app: a}
	c := &cobra.Command{
		Use:   "replay --graph FILE",
		Short: "Play a real social graph and verify every home and count",
		Long:  replayHelp,
		Args:  cobra.NoArgs,
		RunE:  r.run,
	}
	flags := c.Flags()
	flags.StringVar(&r.graph, "graph", "", "edge `file`, plain or .gz, with lines such as 'a b'")
	flags.BoolVar(&r.directed, "directed", false, "'a b' means only that a follows b")
	flags.IntVar(&r.maxUsers, "max-users", 0, "keep the subgraph of the `N` best-connected users (0: all)")
	flags.IntVar(&r.cfg.Posts, "posts", 500, "posts to publish")
	flags.IntVar(&r.cfg.Likes, "likes", 5000, "likes to give, each of another user or post")
	flags.Float64Var(&r.cfg.Rate, "rate", 0, "posts and likes a second (0: no limit)")
	flags.Float64Var(&r.cfg.Away, "away", 0, "`share` of the readers that are away, from 0 to 1")
	flags.IntVar(&r.cfg.PushLimit, "push-limit", 0, "the target's limit of `followers` (default FANFARE_PUSH_LIMIT)")
	flags.DurationVar(&r.cfg.Rebuilt, "rebuilt-after", 65*time.Second, "read the homes of those that were away again after this `time` (0: not)")
	flags.StringVar(&r.cfg.Target, "target", "", "base `URL` of the API (default http://FANFARE_HTTP_ADDR)")
	flags.Uint64Var(&r.cfg.Seed, "seed", 1, "seed of the load")
	flags.StringSliceVar(&r.admin, "admin", nil, "admin `addresses` of all processes (default FANFARE_ADMIN_ADDR, if it answers)")
	flags.IntVar(&r.cfg.Concurrency, "concurrency", 64, "calls in flight")
	flags.StringVar(&r.cfg.Journal, "journal", "", "record every call and answer in a new `file`")
	flags.StringVar(&r.check, "check", "", "only verify the calls of a journal `file`")
	flags.BoolVar(&r.asJSON, "json", false, "print one JSON object")
	return c
}

func (r *replayRun) run(c *cobra.Command, _ []string) error {
	if err := r.complete(c); err != nil {
		return err
	}
	report, err := r.play(c.Context())
	if errors.Is(err, replay.ErrUsage) {
		return wrongUse(err)
	}
	if err != nil {
		return err
	}
	if r.asJSON {
		err = r.printJSON(report)
	} else {
		_, err = fmt.Fprint(r.stdout, report)
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

// complete checks the flags, and takes missing values from the environment.
func (r *replayRun) complete(c *cobra.Command) error {
	if r.check != "" {
		for _, name := range []string{"graph", "journal", "directed", "max-users", "posts", "likes", "rate", "seed", "away"} {
			if c.Flags().Changed(name) {
				return wrongUse(fmt.Errorf("--check verifies the calls of its journal and plays none: leave out --%s", name))
			}
		}
	}
	switch {
	case r.check == "" && r.graph == "":
		return wrongUse(errors.New("name the graph with --graph, or a journal with --check"))
	case r.maxUsers < 0 || r.maxUsers == 1:
		return wrongUse(errors.New("--max-users: at least 2 users, or 0 for all"))
	case r.cfg.Posts < 0 || r.cfg.Likes < 0 || r.cfg.Rate < 0:
		return wrongUse(errors.New("--posts, --likes and --rate cannot be negative"))
	case r.cfg.Away < 0 || r.cfg.Away > 1:
		return wrongUse(errors.New("--away: a share from 0 to 1"))
	case r.cfg.PushLimit < 0 || r.cfg.Rebuilt < 0:
		return wrongUse(errors.New("--push-limit and --rebuilt-after cannot be negative"))
	case r.cfg.Concurrency < 1:
		return wrongUse(errors.New("--concurrency: at least 1"))
	}
	env, err := config.Load(r.environ, config.Tool)
	if err != nil {
		return err
	}
	if r.cfg.Target == "" {
		r.cfg.Target = "http://" + env.HTTPAddr
	}
	if !c.Flags().Changed("push-limit") {
		r.cfg.PushLimit = int(env.PushLimit)
	}
	r.cfg.Reactions = env.Reactions
	r.cfg.Log, r.cfg.Admin = r.stderr, r.admin
	if !c.Flags().Changed("admin") {
		r.own = env.AdminAddr
	}
	return nil
}

// probe checks that the default admin address answers, unless flags named addresses. Its error is
// the reason why the report has no units and queue depths.
func (r *replayRun) probe(ctx context.Context) error {
	if r.own == "" {
		return nil
	}
	err := replay.Probe(ctx, r.own)
	if err == nil {
		r.cfg.Admin = []string{r.own}
	}
	return err
}

// play plays the graph, or checks a journal.
func (r *replayRun) play(ctx context.Context) (report replay.Report, err error) {
	away := r.probe(ctx)
	defer func() {
		if err == nil && away != nil { // away must not hide another error
			fmt.Fprintf(r.stderr, "no units and queue depths: %s\n", daemon.OneLine(away))
		}
	}()
	if r.check != "" {
		return replay.Check(ctx, r.check, r.cfg.Service)
	}
	if r.cfg.Graph, err = replay.ReadGraph(r.graph, r.directed); err != nil {
		return report, err
	}
	if r.maxUsers > 0 {
		r.cfg.Graph = r.cfg.Graph.BestConnected(r.maxUsers)
	}
	return replay.Run(ctx, r.cfg)
}
