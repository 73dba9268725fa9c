package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/daemon"
	"fanfare/internal/ops/audit"
	"fanfare/internal/rfc3339"
)

// verifyFlags are the flags of the command verify.
type verifyFlags struct {
	repair     bool
	restoredTo time.Time
	rate       int
}

func (a *app) verifyCommand() *cobra.Command {
	var flags verifyFlags
	c := &cobra.Command{
		Use: "verify", Short: "Check the stored items against each other, and mend them",
		Long: `Walks over the whole table and checks each item against the others: both edges of a
follow, counts and lists, posts and their ids, delivered posts and homes, home marks, like
counts and likes, indexes. It may run beside traffic: work that is half done is no finding.
docs/OPERATIONS.md lists the kinds of damage.

With --repair it mends each finding, and walks again until nothing is left, five times at
most. A repair does nothing if the damage is gone by then, so it may be run again at any
time. A post without its text cannot be mended, and is deleted: look at a backup first.

After a restore give --after-restore the time that the table was restored to. Then likes that
an aggregator had stored and not counted at that time are findings too, because nobody is left
to count them, and --repair counts them.

The exit code is 1 if findings are left. With FANFARE_ENGINE=aws it reads the table, else it
asks the admin address of a running fanfare up.`,
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&flags.repair, "repair", false, "mend the findings")
	c.Flags().Func("after-restore", "the `TIME` that the table was restored to, such as 2026-11-22T08:00:00Z", func(text string) (err error) {
		flags.restoredTo, err = pastTime(text, time.Now())
		return err
	})
	c.Flags().IntVar(&flags.rate, "rate", 200, "most capacity `UNITS` a second")
	return a.answers(c, a.operates(c, daemon.OpenOperations, func(ctx context.Context, u *use, at admin.Process) (admin.Answer, error) {
		return u.verify(ctx, at, flags)
	}))
}

const (
	// mostWalks is the maximum number of walks of a repair.
	mostWalks = 5
	// mostListed is the maximum number of findings in a JSON object, and tellEvery is the
	// time between two lines of progress.
	mostListed, tellEvery = 10_000, 10 * time.Second
)

// verdict is the JSON object of a verification. It has the summary of the last walk, and
// the findings of all walks.
type verdict struct {
	audit.Summary
	Walks    int             `json:"walks"`
	Findings []audit.Finding `json:"findings"`
}

// walked formats the progress of a walk as a line. The total number of items is an
// estimate, because some items may be new or expired.
func walked(e admin.VerifyEvent, took time.Duration) string {
	done, findings := int64(e.Progress.Items), fmt.Sprintf("%d findings left", e.Progress.Left)
	switch {
	case e.Total == 0:
		return fmt.Sprintf("looked at %d items, %s; the number of all items is unknown", done, findings)
	case done >= e.Total || done == 0:
		return fmt.Sprintf("looked at %d items, %s; the estimate of all items was %d", done, findings, e.Total)
	}
	left := time.Duration(float64(took) / float64(done) * float64(e.Total-done))
	return fmt.Sprintf("looked at %d of about %d items (%d %%), %s; about %s to go", done, e.Total, 100*done/e.Total, findings, max(left.Round(time.Second), time.Second))
}

func (u *use) verify(ctx context.Context, at admin.Process, flags verifyFlags) (answer admin.Answer, err error) {
	if flags.rate < 1 {
		return answer, wrongUse(errors.New("--rate must be at least 1"))
	}
	v := verdict{Findings: []audit.Finding{}}
	began, told := time.Now(), time.Now()
	event := func(e admin.VerifyEvent) error {
		switch {
		case e.Finding != nil && u.json:
			if len(v.Findings) < mostListed {
				v.Findings = append(v.Findings, *e.Finding)
			}
		case e.Finding != nil:
			f, end := e.Finding, "mended"
			if !f.Mended {
				end = f.Advice
			}
			return u.println("%s  %s / %s: %s (%s)", f.Kind, printable(f.PK), printable(f.SK), printable(f.Detail), end)
		case e.Progress != nil && time.Since(told) >= tellEvery:
			told = time.Now()
			_, err := fmt.Fprintln(u.stderr, walked(e, told.Sub(began)))
			return err
		}
		return nil
	}
	asked := admin.Verification{Repair: flags.repair, RestoredTo: flags.restoredTo, Rate: float64(flags.rate), Event: event}
	for again := true; again; {
		began = time.Now()
		if v.Summary, err = admin.Verify().Do(ctx, at, asked); err != nil {
			return answer, err
		}
		v.Walks++
		again = flags.repair && len(v.Mended) > 0 && v.Walks < mostWalks
	}
	if v.Left > 0 {
		err = &exitError{daemon.ExitFailure}
	}
	text := fmt.Sprintf("looked at %d items for %.0f units: %d findings left, %d checks undecided", v.Items, v.ReadUnits+v.WriteUnits, v.Left, v.Undecided)
	return admin.Answer{JSON: v, Text: text}, err
}

// pastTime parses a time, and returns an error for a time in the future.
func pastTime(text string, now time.Time) (time.Time, error) {
	at, err := rfc3339.Parse(text)
	switch {
	case err != nil:
		return time.Time{}, errors.New("it is not a time such as 2026-11-22T08:00:00Z")
	case at.After(now):
		return time.Time{}, errors.New("it is in the future")
	}
	return at, nil
}
