package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/queue"
)

func (a *app) deadLettersCommand() *cobra.Command {
	return group("dlq", "List dead letters, which are kept for 14 days, send them again or drop them",
		a.deadLettersList(), a.deadLettersShow(), a.deadLettersRedrive(), a.deadLettersDrop())
}

// onDeadLetters gives c work on dead letters: in the queues of FANFARE_ENGINE=aws, or else
// through the admin address of a running fanfare up.
func (a *app) onDeadLetters(c *cobra.Command, do func(ctx context.Context, letters admin.Operator, args []string) error) *cobra.Command {
	c.Flags().String("admin", "", "admin address of fanfare up (FANFARE_ADMIN_ADDR, default 127.0.0.1:9090)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && !slices.Contains(queue.Topics(), args[0]) {
			return wrongUse(fmt.Errorf("there is no topic %q: use one of %v", args[0], queue.Topics()))
		}
		cfg, err := a.load(config.Tool, c, map[string]string{"admin": "FANFARE_ADMIN_ADDR"})
		if err != nil {
			return err
		}
		if cfg.Engine != config.EngineAWS {
			return do(c.Context(), admin.NewClient(cfg.AdminAddr, &http.Client{Timeout: time.Minute}), args)
		}
		broker, err := daemon.OpenQueues(c.Context(), cfg)
		if err != nil {
			return err
		}
		err = do(c.Context(), admin.NewOperator(broker, time.Now), args)
		return errors.Join(err, broker.Close())
	}
	return c
}

func (a *app) deadLettersList() *cobra.Command {
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use: "ls [TOPIC]", Short: "List dead letters with the reason each failed", Args: cobra.MaximumNArgs(1),
	}
	c.Flags().IntVar(&limit, "limit", 100, "most dead letters of a topic")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return a.onDeadLetters(c, func(ctx context.Context, letters admin.Operator, args []string) error {
		if limit < 1 || limit > admin.MaxDeadLetters {
			return wrongUse(fmt.Errorf("--limit: %d is not between 1 and %d", limit, admin.MaxDeadLetters))
		}
		topics := queue.Topics()
		if len(args) > 0 {
			topics = args
		}
		all := []admin.DeadLetter{}
		for _, topic := range topics {
			found, err := letters.List(ctx, topic, limit)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		if asJSON {
			return a.printJSON(struct {
				Items []admin.DeadLetter `json:"items"`
			}{all})
		}
		rows := [][]string{{"TOPIC", "ID", "FAILED AT", "RECEIVES", "REASON"}}
		for _, l := range all {
			rows = append(rows, []string{l.Topic, printable(l.ID), l.FailedAt.Format(time.RFC3339), strconv.Itoa(l.Receives), printable(l.Reason)})
		}
		return a.printTable(rows)
	})
}

func (a *app) deadLettersShow() *cobra.Command {
	c := &cobra.Command{Use: "show TOPIC ID", Short: "Print one dead letter completely, as JSON", Args: cobra.ExactArgs(2)}
	c.Flags().Bool("json", true, "print one JSON object (it always does)")
	return a.onDeadLetters(c, func(ctx context.Context, letters admin.Operator, args []string) error {
		found, err := letters.List(ctx, args[0], admin.MaxDeadLetters)
		if err != nil {
			return err
		}
		for _, l := range found {
			if l.ID == args[1] {
				return a.printJSON(l)
			}
		}
		if len(found) == admin.MaxDeadLetters {
			return fmt.Errorf("%s is not among the first %d dead letters of %s, and there may be more: drop or redrive some, and look again",
				printable(args[1]), admin.MaxDeadLetters, args[0])
		}
		return fmt.Errorf("there is no dead letter %s in %s: see fanfare dlq ls %s", args[1], args[0], args[0])
	})
}

// selection returns the ids that a command is to work on; none means all.
func selection(args []string, all bool) ([]string, error) {
	switch ids := args[1:]; {
	case all && len(ids) > 0:
		return nil, wrongUse(errors.New("give ids or --all, not both"))
	case !all && len(ids) == 0:
		return nil, wrongUse(errors.New("no dead letter is named: give ids, or --all"))
	default:
		return ids, nil
	}
}

func (a *app) deadLettersRedrive() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use: "redrive TOPIC {ID… | --all}", Short: "Send dead letters again",
		Long: "Sends dead letters to their topic again. It refuses those older than 30 days: the records that keep a message from taking effect twice may have expired.",
		Args: cobra.MinimumNArgs(1),
	}
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the topic")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return a.onDeadLetters(c, func(ctx context.Context, letters admin.Operator, args []string) error {
		ids, err := selection(args, all)
		if err != nil {
			return err
		}
		done, err := letters.Redrive(ctx, args[0], ids)
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(done)
		}
		return a.println("sent %d, refused %d", done.Sent, done.Refused)
	})
}

func (a *app) deadLettersDrop() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{Use: "drop TOPIC {ID… | --all}", Short: "Remove dead letters for good", Args: cobra.MinimumNArgs(1)}
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the topic")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return a.onDeadLetters(c, func(ctx context.Context, letters admin.Operator, args []string) error {
		ids, err := selection(args, all)
		if err != nil {
			return err
		}
		dropped, err := letters.Drop(ctx, args[0], ids)
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(struct {
				Dropped int `json:"dropped"`
			}{dropped})
		}
		return a.println("dropped %d", dropped)
	})
}
