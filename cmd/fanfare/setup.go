package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
)

func (a *app) tableCommand() *cobra.Command {
	var created, described bool // as JSON
	create := &cobra.Command{
		Use: "create", Short: "Make the table, if it is not there", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(config.Tool, c, nil)
			if err != nil {
				return err
			}
			store, err := daemon.OpenTable(c.Context(), cfg)
			if err != nil {
				return err
			}
			if err := store.Create(c.Context()); err != nil {
				return err
			}
			if created {
				return a.printJSON(struct {
					Table string `json:"table"`
				}{cfg.Table})
			}
			return a.println("table %s is there", cfg.Table)
		},
	}
	create.Flags().BoolVar(&created, "json", false, "print one JSON object")
	describe := &cobra.Command{
		Use: "describe", Short: "Say what the table is like", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(config.Tool, c, nil)
			if err != nil {
				return err
			}
			store, err := daemon.OpenTable(c.Context(), cfg)
			if err != nil {
				return err
			}
			d, err := store.Describe(c.Context())
			if err != nil {
				return err
			}
			if described {
				return a.printJSON(d)
			}
			fits := "yes"
			if len(d.Differences) > 0 {
				fits = "no: " + strings.Join(d.Differences, "; ")
			}
			return a.printTable([][]string{
				{"NAME", d.Name}, {"STATUS", d.Status}, {"BILLING", d.Billing}, {"TTL", d.TTL},
				{"ITEMS", strconv.FormatInt(d.Items, 10)}, {"BYTES", strconv.FormatInt(d.Bytes, 10)}, {"FITS", fits},
			})
		},
	}
	describe.Flags().BoolVar(&described, "json", false, "print one JSON object")
	model := &cobra.Command{
		Use: "model", Short: "Print the table's design for NoSQL Workbench", Args: cobra.NoArgs,
		Long: `Prints the table's design as JSON that NoSQL Workbench for DynamoDB imports: keys, the
index, and each type of item as a facet with sample rows. It calls nobody.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(config.Tool, c, nil)
			if err != nil {
				return err
			}
			design, err := schema.WorkbenchModel(cfg.Table)
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(design)
			return err
		},
	}
	model.Flags().Bool("json", true, "print one JSON object (it always does)")
	return group("table", "Set up the DynamoDB table", create, describe, model)
}

func (a *app) queuesCommand() *cobra.Command {
	var created, described bool // as JSON
	create := &cobra.Command{
		Use: "create", Short: "Make the queues and their dead-letter queues, if they are not there", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(config.Tool, c, nil)
			if err != nil {
				return err
			}
			broker, err := daemon.OpenQueues(c.Context(), cfg)
			if err != nil {
				return err
			}
			err = broker.Create(c.Context())
			if err := errors.Join(err, broker.Close()); err != nil {
				return err
			}
			var names []string
			for _, topic := range queue.Topics() {
				names = append(names, cfg.QueuePrefix+"-"+topic)
			}
			if created {
				return a.printJSON(struct {
					Queues []string `json:"queues"`
				}{names})
			}
			return a.println("queues %s are there", strings.Join(names, ", "))
		},
	}
	create.Flags().BoolVar(&created, "json", false, "print one JSON object")
	describe := &cobra.Command{
		Use: "describe", Short: "Say how many messages the queues hold", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(config.Tool, c, nil)
			if err != nil {
				return err
			}
			return a.describeQueues(c.Context(), cfg, described)
		},
	}
	describe.Flags().BoolVar(&described, "json", false, "print one JSON object")
	return group("queues", "Set up the SQS queues", create, describe)
}

func (a *app) describeQueues(ctx context.Context, cfg config.Config, asJSON bool) error {
	type depth struct {
		Ready    int64 `json:"ready"`
		Delayed  int64 `json:"delayed"`
		InFlight int64 `json:"in_flight"`
		Dead     int64 `json:"dead"`
	}
	broker, err := daemon.OpenQueues(ctx, cfg)
	if err != nil {
		return err
	}
	depths := map[string]depth{}
	rows := [][]string{{"QUEUE", "READY", "DELAYED", "IN FLIGHT", "DEAD"}}
	queues, err := broker.Describe(ctx)
	if err := errors.Join(err, broker.Close()); err != nil {
		return err
	}
	for _, q := range queues {
		depths[q.Name] = depth(q.Depth)
		row := []string{q.Name}
		for _, n := range []int64{q.Depth.Ready, q.Depth.Delayed, q.Depth.InFlight, q.Depth.Dead} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, row)
	}
	if asJSON {
		return a.printJSON(depths)
	}
	return a.printTable(rows)
}
