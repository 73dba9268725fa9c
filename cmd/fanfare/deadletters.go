package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/queue"
	"fanfare/messages"
)

func (a *app) deadLettersCommand() *cobra.Command {
	return group("dlq", "List dead letters, which are kept for 14 days, send them again or drop them",
		a.deadLettersList(), a.deadLettersShow(), a.deadLettersRedrive(), a.deadLettersDrop())
}

// onDeadLetters returns the work that calls do with the process that has the dead letters. With FANFARE_ENGINE=aws they
// are in the queues of SQS; otherwise they are behind the admin address of a running fanfare up.
func (a *app) onDeadLetters(c *cobra.Command, do func(ctx context.Context, u *use, at admin.Process) (admin.Answer, error)) work {
	open := func(ctx context.Context, cfg config.Config) (d admin.Domain, end func() error, err error) {
		broker, err := daemon.OpenQueues(ctx, cfg)
		if err != nil {
			return d, nil, err
		}
		return admin.Domain{Letters: broker, Now: time.Now}, broker.Close, nil
	}
	operated := a.operates(c, open, do)
	return func(ctx context.Context, u *use) (admin.Answer, error) {
		if len(u.args) > 0 && !slices.Contains(queue.Topics(), u.args[0]) {
			return admin.Answer{}, wrongUse(fmt.Errorf("there is no topic %q: use one of %v", u.args[0], queue.Topics()))
		}
		return operated(ctx, u)
	}
}

// reasonsHelp returns the texts that --reason accepts, for the help.
func reasonsHelp() string {
	var help strings.Builder
	help.WriteString("Lists dead letters with the reason each failed. A reason contains one of these texts:\n")
	for _, r := range messages.Reasons() {
		help.WriteString("\n  " + string(r))
	}
	return help.String()
}

// choice has the flags that select dead letters by their reason and age.
type choice struct {
	reason       string
	older, newer time.Duration
}

func (f *choice) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "only those with this text in their reason, such as "+strconv.Quote(string(messages.ReasonNoPost)))
	c.Flags().DurationVar(&f.older, "older", 0, "only those that failed longer ago, such as 1h")
	c.Flags().DurationVar(&f.newer, "newer", 0, "only those that failed since, such as 30m")
}

func (f *choice) selection(now time.Time) (admin.Selection, error) {
	s := admin.Selection{Reason: f.reason}
	if f.older < 0 || f.newer < 0 {
		return s, wrongUse(errors.New("--older and --newer are times that have passed: they must not be negative"))
	}
	if f.older > 0 {
		s.Before = now.Add(-f.older)
	}
	if f.newer > 0 {
		s.After = now.Add(-f.newer)
	}
	return s, nil
}

func (a *app) deadLettersList() *cobra.Command {
	var limit int
	var choose choice
	c := &cobra.Command{
		Use: "ls [TOPIC]", Short: "List dead letters with the reason each failed", Long: reasonsHelp(), Args: cobra.MaximumNArgs(1),
	}
	choose.flags(c)
	c.Flags().IntVar(&limit, "limit", 100, "most dead letters of a topic to look at")
	return a.answers(c, a.onDeadLetters(c, func(ctx context.Context, u *use, at admin.Process) (answer admin.Answer, err error) {
		if limit < 1 || limit > admin.MaxDeadLetters {
			return answer, wrongUse(fmt.Errorf("--limit: %d is not between 1 and %d", limit, admin.MaxDeadLetters))
		}
		s, err := choose.selection(time.Now())
		if err != nil {
			return answer, err
		}
		topics := queue.Topics()
		if len(u.args) > 0 {
			topics = u.args
		}
		s.Limit = limit
		all := []admin.DeadLetter{}
		for _, topic := range topics {
			found, err := admin.ListLetters().Do(ctx, at, admin.Letters{Topic: topic, Selection: s})
			if err != nil {
				return answer, err
			}
			all = append(all, found...)
		}
		return lettersAnswer(all), nil
	}))
}

func lettersAnswer(all []admin.DeadLetter) admin.Answer {
	rows := [][]string{{"TOPIC", "ID", "TYPE", "USER", "FAILED AT", "RECEIVES", "REASON"}}
	for _, l := range all {
		rows = append(rows, []string{
			l.Topic, l.ID, cmp.Or(l.Type, "-"), cmp.Or(l.User, "-"), l.FailedAt.Format(time.RFC3339), strconv.Itoa(l.Receives), l.Reason,
		})
	}
	return admin.Answer{JSON: admin.Items[[]admin.DeadLetter]{Items: all}, Rows: rows}
}

// listed returns the first letters of a topic that s selects.
func listed(ctx context.Context, at admin.Process, topic string, s admin.Selection) ([]admin.DeadLetter, error) {
	s.Limit = admin.MaxDeadLetters
	return admin.ListLetters().Do(ctx, at, admin.Letters{Topic: topic, Selection: s})
}

func (a *app) deadLettersShow() *cobra.Command {
	c := &cobra.Command{Use: "show TOPIC ID", Short: "Print one dead letter completely, as JSON", Args: cobra.ExactArgs(2)}
	a.answers(c, a.onDeadLetters(c, func(ctx context.Context, u *use, at admin.Process) (answer admin.Answer, err error) {
		topic, id := u.args[0], u.args[1]
		found, err := listed(ctx, at, topic, admin.Selection{})
		if err != nil {
			return answer, err
		}
		for _, l := range found {
			if l.ID == id {
				return answer, u.printJSON(l)
			}
		}
		if len(found) == admin.MaxDeadLetters {
			return answer, fmt.Errorf("%s is not among the first %d dead letters of %s, and there may be more: drop or redrive some, and look again",
				printable(id), admin.MaxDeadLetters, topic)
		}
		return answer, fmt.Errorf("there is no dead letter %s in %s: see fanfare dlq ls %s", printable(id), topic, topic)
	}))
	always(c)
	return c
}

// selection returns the selection of a command's arguments and flags.
func selection(args []string, all bool, choose choice) (admin.Selection, error) {
	s, err := choose.selection(time.Now())
	if err != nil {
		return s, err
	}
	s.IDs, s.All = args[1:], all
	switch {
	case all && len(s.IDs) > 0:
		return s, wrongUse(errors.New("give ids or --all, not both"))
	case !all && len(s.IDs) == 0:
		return s, wrongUse(errors.New("no dead letter is named: give ids, or --all"))
	case !all && s.Filtered():
		return s, wrongUse(errors.New("--reason, --older and --newer choose among --all"))
	}
	return s, nil
}

func (a *app) deadLettersRedrive() *cobra.Command {
	var all, dryRun bool
	var pace int
	var choose choice
	c := &cobra.Command{
		Use: "redrive TOPIC {ID… | --all}", Short: "Send dead letters again",
		Long: `Sends dead letters to their topic again, with --all at most --rate a second. It refuses
those older than 30 days: the records that keep a message from taking effect twice may
have expired. Letters that fail once more are not sent a second time. --dry-run lists
the letters that it would send.`,
		Args: cobra.MinimumNArgs(1),
	}
	choose.flags(c)
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the topic, or those of --reason, --older and --newer")
	c.Flags().IntVar(&pace, "rate", 100, "with --all: the most letters in a second, 0 for no limit")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "list them, and send none")
	return a.answers(c, a.onDeadLetters(c, func(ctx context.Context, u *use, at admin.Process) (answer admin.Answer, err error) {
		topic := u.args[0]
		s, err := selection(u.args, all, choose)
		if err != nil {
			return answer, err
		}
		if pace < 0 {
			return answer, wrongUse(fmt.Errorf("--rate: %d is negative", pace))
		}
		if dryRun {
			return wouldTouch(ctx, at, topic, s)
		}
		redrive := func(s admin.Selection) (admin.Redriven, error) {
			done, err := admin.Redrive().Do(ctx, at, admin.Letters{Topic: topic, Selection: s})
			return done.Redriven, err
		}
		var done admin.Redriven
		if all {
			s.Limit = pace
			done, err = redriveSlowly(ctx, s, redrive, func(done admin.Redriven) {
				_, _ = fmt.Fprintf(a.stderr, "sent %d so far\n", done.Sent) // without stderr nobody watches
			})
		} else {
			done, err = redrive(s)
		}
		if err != nil {
			return answer, fmt.Errorf("sent %d, and then: %w", done.Sent, err)
		}
		if err := allFound(s, topic, done.Sent+done.Refused); err != nil {
			return answer, fmt.Errorf("sent %d, refused %d: %w", done.Sent, done.Refused, err)
		}
		return admin.Answer{JSON: done, Text: fmt.Sprintf("sent %d, refused %d", done.Sent, done.Refused)}, nil
	}))
}

// redriveSlowly sends the letters that s selects, s.Limit letters each second, until none is left.
func redriveSlowly(ctx context.Context, s admin.Selection, redrive func(admin.Selection) (admin.Redriven, error), progress func(admin.Redriven)) (admin.Redriven, error) {
	var total admin.Redriven
	start := time.Now()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		done, err := redrive(s)
		total.Sent += done.Sent
		total.Refused = done.Refused // the last call reads all remaining letters
		if err != nil || s.Limit == 0 || done.Sent < s.Limit {
			return total, err
		}
		progress(total)
		if s.Before.IsZero() {
			s.Before = start // a letter that fails again is not selected again
		}
		select {
		case <-second.C:
		case <-ctx.Done():
			return total, ctx.Err()
		}
	}
}

// wouldTouch lists the letters that a change of the selection would affect.
func wouldTouch(ctx context.Context, at admin.Process, topic string, s admin.Selection) (answer admin.Answer, err error) {
	found, err := listed(ctx, at, topic, s)
	if err != nil {
		return answer, err
	}
	if len(s.IDs) > 0 { // the admin address selects letters only by reason and age
		found = slices.DeleteFunc(found, func(l admin.DeadLetter) bool { return !slices.Contains(s.IDs, l.ID) })
	}
	if err := allFound(s, topic, len(found)); err != nil {
		return answer, err
	}
	return lettersAnswer(found), nil
}

// allFound returns an error if fewer letters were found than the selection has ids.
func allFound(s admin.Selection, topic string, found int) error {
	ids := slices.Clone(s.IDs)
	slices.Sort(ids)
	if named := len(slices.Compact(ids)); found < named {
		return fmt.Errorf("%d of %d ids were not found among the dead letters of %s: see fanfare dlq ls %s", named-found, named, topic, topic)
	}
	return nil
}

func (a *app) deadLettersDrop() *cobra.Command {
	var all, dryRun bool
	var choose choice
	c := &cobra.Command{
		Use: "drop TOPIC {ID… | --all}", Short: "Remove dead letters for good",
		Long: "Removes dead letters for good. --all asks before, unless --yes is given. --dry-run lists the letters that it would remove.",
		Args: cobra.MinimumNArgs(1),
	}
	choose.flags(c)
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the topic, or those of --reason, --older and --newer")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "list them, and remove none")
	return a.asks(c, a.onDeadLetters(c, func(ctx context.Context, u *use, at admin.Process) (answer admin.Answer, err error) {
		topic := u.args[0]
		s, err := selection(u.args, all, choose)
		if err != nil {
			return answer, err
		}
		if dryRun {
			return wouldTouch(ctx, at, topic, s)
		}
		var done admin.Changed
		none := false
		if all && !u.yes {
			if none, err = u.confirmDrop(ctx, at, topic, s); err != nil {
				return answer, err
			}
		}
		if !none {
			done, err = admin.Drop().Do(ctx, at, admin.Letters{Topic: topic, Selection: s})
		}
		if err != nil {
			return answer, err
		}
		if err := allFound(s, topic, done.Dropped); err != nil {
			return answer, fmt.Errorf("dropped %d: %w", done.Dropped, err)
		}
		answer.JSON = struct {
			Dropped int `json:"dropped"`
		}{done.Dropped}
		answer.Text = fmt.Sprintf("dropped %d", done.Dropped)
		return answer, nil
	}))
}

// confirmDrop asks the operator whether to remove the letters that s selects. If s selects no
// letter, confirmDrop does not ask.
func (u *use) confirmDrop(ctx context.Context, at admin.Process, topic string, s admin.Selection) (none bool, err error) {
	all, err := listed(ctx, at, topic, admin.Selection{})
	if err != nil {
		return false, err
	}
	meant := len(slices.DeleteFunc(all, func(l admin.DeadLetter) bool { return !s.Means(l) }))
	number := fmt.Sprint(meant)
	if len(all) == admin.MaxDeadLetters {
		number += " or more"
	} else if meant == 0 {
		return true, nil
	}
	return false, u.sure(fmt.Sprintf("Remove %s dead letters of %s for good? Type yes: ", number, topic), "yes")
}
