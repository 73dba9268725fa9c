package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/daemon"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/ops/capacity"
)

func (a *app) deliveryCommand() *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use: "delivery POST", Short: "Show how far a post's delivery is, or watch it",
		Long: `Shows the progress of a post's delivery. With --watch it goes on until the delivery has
ended: on a terminal as a bar, else with a line for each change. A delivery that rests may have
stopped at a dead letter, which fanfare dlq ls lists.

With FANFARE_ENGINE=aws it reads the table, else it asks the admin address of a running
fanfare up.`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().BoolVar(&watch, "watch", false, "go on until the delivery has ended")
	a.answers(c, a.operates(c, daemon.OpenOperations, func(ctx context.Context, u *use, at admin.Process) (answer admin.Answer, err error) {
		if err := admin.CheckIDs("", u.args[0]); err != nil {
			return answer, wrongUse(err)
		}
		show := a.showDelivery()
		if u.json {
			show = func(d delivery.Progress, last bool) error {
				if last {
					answer.JSON = d
				}
				return nil
			}
		}
		err = watchDelivery(ctx, watch, func() (delivery.Progress, error) {
			return admin.Delivery().Do(ctx, at, admin.Delivered{Post: u.args[0]})
		}, show)
		return answer, err
	}))
	c.Flags().Lookup("json").Usage = "print one JSON object, with --watch the last one"
	return c
}

// watchEvery is the time between two reads of a delivery.
const watchEvery = 500 * time.Millisecond

// watchDelivery shows a delivery once, or repeatedly until the delivery has ended.
func watchDelivery(ctx context.Context, watch bool, read func() (delivery.Progress, error), show func(d delivery.Progress, last bool) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		d, err := read()
		if err != nil {
			return err
		}
		last := !watch || d.State != "queued" && d.State != "running"
		if err := show(d, last); err != nil || last {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the delivery goes on, the watch was ended: %w", ctx.Err())
		}
	}
}

// showDelivery returns a function that prints a line for each change. On a terminal each
// line replaces the previous line.
func (a *app) showDelivery() func(d delivery.Progress, last bool) error {
	begin, end := "", "\n"
	if isTerminal(a.stdout) {
		begin, end = "\r\x1b[K", ""
	}
	shown := ""
	return func(d delivery.Progress, last bool) error {
		line := printable(deliveryLine(d))
		if line != shown {
			shown = line
			line = begin + line + end
		} else {
			line = ""
		}
		if last && end == "" {
			line += "\n"
		}
		_, err := fmt.Fprint(a.stdout, line)
		return err
	}
}

// barWidth is the number of characters of a full bar.
const barWidth = 30

// deliveryLine formats a delivery as a bar and a sentence. The sentence also names the take-down of a post.
func deliveryLine(d delivery.Progress) string {
	line := progressLine(d)
	if down := d.TakenDown; down != nil {
		line += fmt.Sprintf("; %s took the post down at %s: %s", down.By, down.At.UTC().Format(time.RFC3339), down.Reason)
	}
	return line
}

func progressLine(d delivery.Progress) string {
	at := func(t *time.Time) string {
		if t == nil {
			return "an unknown time"
		}
		return t.UTC().Format(time.RFC3339)
	}
	share, text := 0.0, ""
	if d.Planned != nil && *d.Planned > 0 && d.Delivered != nil && d.ChunksDone != nil {
		reached, skipped := *d.Delivered, ""
		if d.Skipped != nil && *d.Skipped > 0 {
			reached += *d.Skipped
			skipped = fmt.Sprintf(" and %s skipped", capacity.Number(float64(*d.Skipped)))
		}
		share = min(1, float64(reached)/float64(*d.Planned))
		chunks := fmt.Sprint(*d.ChunksDone)
		if d.ChunksTotal != nil {
			chunks += fmt.Sprint(" of ", *d.ChunksTotal)
		}
		text = fmt.Sprintf(": %s%s of %s homes, %s chunks", capacity.Number(float64(*d.Delivered)), skipped, capacity.Number(float64(*d.Planned)), chunks)
	}
	switch string(d.State) {
	case "queued":
		text = " since " + at(&d.AcceptedAt) + ": no worker has begun"
	case "running":
		share = min(share, 0.99) // there may be one more chunk
		text += fmt.Sprintf(", attempt %d", d.Attempts)
	case "complete":
		share = 1
		if d.CompletedAt != nil {
			text += ", at " + at(d.CompletedAt)
		} else {
			text = ", and its record has expired"
		}
	case "pulled":
		return "pulled: homes merge it in, nothing is delivered"
	case "cancelled":
		return "cancelled: " + d.Reason + " before its delivery was complete"
	}
	full := int(share * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %% %s%s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*share, d.State, text)
}
