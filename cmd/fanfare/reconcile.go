package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/feed/delivery"
)

// reconcileFlags select the posts of a reconcile.
type reconcileFlags struct {
	since     string
	olderThan time.Duration
	rate      int
	asJSON    bool
}

func (a *app) reconcileCommand() *cobra.Command {
	var flags reconcileFlags
	c := &cobra.Command{
		Use: "reconcile", Short: "Find posts whose delivery was lost, and deliver them",
		Long: `Looks at the posts of the last days, as far back as homes show them, and begins the
delivery of each one again that is not complete. Run it after messages were lost: after an
outage longer than the 14 days that a queue keeps them, or when a queue was deleted.

It may be run at any time and more than once: a delivered entry stays as it is, and homes
show a post once. A delivery that still runs is only begun again, so wait until the queues
are empty (fanfare queues describe). With FANFARE_ENGINE=aws it reads the table and the
queues, else it asks the admin address of a running fanfare up.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&flags.since, "since", "", "first `DAY` of the posts, YYYY-MM-DD in UTC (default: the oldest that homes show)")
	c.Flags().DurationVar(&flags.olderThan, "older-than", time.Hour, "leave out younger posts: they may still be in work")
	c.Flags().IntVar(&flags.rate, "rate", 100, "most posts a second")
	c.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object")
	return a.onTable(c, func(ctx context.Context, posts admin.Operations, _ []string) error {
		return a.reconcile(ctx, posts, flags)
	})
}

// onTable calls do with the operations of the configuration: the operations on the table of
// FANFARE_ENGINE=aws, or the operations behind the admin address of a running fanfare up.
func (a *app) onTable(c *cobra.Command, do func(ctx context.Context, posts admin.Operations, args []string) error) *cobra.Command {
	c.Flags().String("admin", "", "admin address of fanfare up (FANFARE_ADMIN_ADDR, default 127.0.0.1:9090)")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := a.load(config.Tool, c, map[string]string{"admin": "FANFARE_ADMIN_ADDR"})
		if err != nil {
			return err
		}
		if cfg.Engine != config.EngineAWS {
			return do(c.Context(), admin.NewClient(cfg.AdminAddr, &http.Client{Timeout: time.Minute}), args)
		}
		posts, end, err := daemon.OpenOperations(c.Context(), cfg)
		if err != nil {
			return err
		}
		return errors.Join(do(c.Context(), a.trail(cfg).Operations(posts), args), end())
	}
	return c
}

func (a *app) reconcile(ctx context.Context, posts admin.Reconciler, flags reconcileFlags) error {
	var since time.Time
	if flags.since != "" {
		var err error
		if since, err = time.Parse(time.DateOnly, flags.since); err != nil {
			return wrongUse(fmt.Errorf("--since: %q is not a day such as 2026-11-22", flags.since))
		}
	}
	if flags.rate < 1 || flags.olderThan < 0 {
		return wrongUse(errors.New("--rate must be at least 1, --older-than at least 0s"))
	}
	until := time.Now().Add(-flags.olderThan)
	page := min(flags.rate, admin.MaxReconcile)
	pace := rate.NewLimiter(rate.Limit(flags.rate), page)
	var sum delivery.Reconciled
	told := time.Now()
	for first := true; first || sum.Next != ""; first = false {
		done, err := posts.Reconcile(ctx, since, until, sum.Next, page)
		if err != nil {
			return err
		}
		sum = delivery.Reconciled{Checked: sum.Checked + done.Checked, Published: sum.Published + done.Published, Next: done.Next}
		if time.Since(told) >= tellEvery {
			told = time.Now()
			fmt.Fprintf(a.stderr, "looked at %d posts, began the delivery of %d again\n", sum.Checked, sum.Published)
		}
		if err := pace.WaitN(ctx, done.Checked); err != nil {
			return err
		}
	}
	if flags.asJSON {
		return a.printJSON(sum)
	}
	return a.println("looked at %d posts, began the delivery of %d again", sum.Checked, sum.Published)
}
