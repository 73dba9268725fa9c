package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"fanfare/internal/admin"
	"fanfare/internal/daemon"
	"fanfare/internal/feed/delivery"
)

// reconcileFlags select the posts of a reconcile.
type reconcileFlags struct {
	since     string
	olderThan time.Duration
	rate      int
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
	return a.answers(c, a.operates(c, daemon.OpenOperations, func(ctx context.Context, _ *use, at admin.Process) (admin.Answer, error) {
		return a.reconcile(ctx, at, flags)
	}))
}

func (a *app) reconcile(ctx context.Context, at admin.Process, flags reconcileFlags) (answer admin.Answer, err error) {
	var since time.Time
	if flags.since != "" {
		if since, err = time.Parse(time.DateOnly, flags.since); err != nil {
			return answer, wrongUse(fmt.Errorf("--since: %q is not a day such as 2026-11-22", flags.since))
		}
	}
	if flags.rate < 1 || flags.olderThan < 0 {
		return answer, wrongUse(errors.New("--rate must be at least 1, --older-than at least 0s"))
	}
	until := time.Now().Add(-flags.olderThan)
	page := min(flags.rate, admin.MaxReconcile)
	pace := rate.NewLimiter(rate.Limit(flags.rate), page)
	var sum delivery.Reconciled
	told := time.Now()
	for first := true; first || sum.Next != ""; first = false {
		done, err := admin.Reconcile().Do(ctx, at, admin.Reconciling{Since: since, Until: until, Cursor: sum.Next, Limit: page})
		if err != nil {
			return answer, err
		}
		sum = delivery.Reconciled{Checked: sum.Checked + done.Checked, Published: sum.Published + done.Published, Next: done.Next}
		if time.Since(told) >= tellEvery {
			told = time.Now()
			fmt.Fprintf(a.stderr, "looked at %d posts, began the delivery of %d again\n", sum.Checked, sum.Published)
		}
		if err := pace.WaitN(ctx, done.Checked); err != nil {
			return answer, err
		}
	}
	return admin.Answer{JSON: sum, Text: fmt.Sprintf("looked at %d posts, began the delivery of %d again", sum.Checked, sum.Published)}, nil
}
