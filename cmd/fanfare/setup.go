package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table/dynamo"
)

// setupCommand returns a command that calls work with the configuration.
func (a *app) setupCommand(words, short string, work func(ctx context.Context, cfg config.Config) (admin.Answer, error)) *cobra.Command {
	c := &cobra.Command{Use: words, Short: short, Args: cobra.NoArgs}
	return a.answers(c, func(ctx context.Context, _ *use) (answer admin.Answer, err error) {
		cfg, err := a.load(config.Tool, c, nil)
		if err != nil {
			return answer, err
		}
		return work(ctx, cfg)
	})
}

func (a *app) tableCommand() *cobra.Command {
	model := a.setupCommand("model", "Print the table's design for NoSQL Workbench", a.tableModel)
	model.Long = `Prints the table's design as JSON that NoSQL Workbench for DynamoDB imports: keys, the
index, and each type of item as a facet with sample rows. It needs no connection.`
	always(model)
	var billing *billingFlags
	create := a.setupCommand("create", "Create the table, unless it exists", func(ctx context.Context, cfg config.Config) (admin.Answer, error) {
		plan, err := billing.plan()
		if err != nil {
			return admin.Answer{}, err
		}
		return a.createTable(ctx, cfg, plan)
	})
	create.Long = `Creates the table with its index and expiry, and writes its format, unless it exists. A
table that exists is compared with the flags about its capacity that are given, and never
changed: an error names the command that changes it. With --billing provisioned the table
begins with the least units of each range, and the commands for the policies that scale
them are printed. Nothing makes those policies but these commands, or the stack of docs/DEPLOY.md.`
	billing = addBillingFlags(create)
	return group("table", "Set up the DynamoDB table",
		create,
		a.setupCommand("describe", "Print the table's state, size and differences from the design", a.describeTable),
		model)
}

func (a *app) createTable(ctx context.Context, cfg config.Config, plan dynamo.Plan) (answer admin.Answer, err error) {
	store, err := daemon.OpenTable(ctx, cfg, nil)
	if err != nil {
		return answer, err
	}
	made, err := store.CreateAs(ctx, plan)
	if made {
		a.trail(cfg).Note(ctx, "table create", 1, err, zap.String("table", cfg.Table))
	}
	if err != nil {
		return answer, err
	}
	answer.JSON = struct {
		Table   string `json:"table"`
		Created bool   `json:"created"`
		// Scaling has the commands that make the policies for scaling provisioned units.
		Scaling []string `json:"scaling,omitempty"`
	}{cfg.Table, made, scaling(plan, cfg.Table)}
	answer.Text = fmt.Sprintf(map[bool]string{true: "created table %s", false: "table %s exists already"}[made], cfg.Table)
	if commands := scaling(plan, cfg.Table); len(commands) > 0 {
		answer.Text += "\nIts units are scaled by the policies that these commands make:\n" + strings.Join(commands, "\n")
	}
	return answer, nil
}

func (*app) describeTable(ctx context.Context, cfg config.Config) (answer admin.Answer, err error) {
	store, err := daemon.OpenTable(ctx, cfg, nil)
	if err != nil {
		return answer, err
	}
	d, err := store.Describe(ctx)
	if err != nil {
		return answer, err
	}
	fits := "yes"
	if len(d.Differences) > 0 {
		fits = "no"
	}
	answer = admin.Answer{JSON: d, Rows: [][]string{
		{"NAME", d.Name}, {"STATUS", d.Status}, {"BILLING", d.Billing}, {"CAPACITY", d.Text()}, {"TTL", d.TTL},
		{"ITEMS", strconv.FormatInt(d.Items, 10)}, {"BYTES", strconv.FormatInt(d.Bytes, 10)}, {"FITS", fits},
	}}
	if len(d.Differences) > 0 {
		err = fmt.Errorf("table %q is not one of Fanfare (%s): choose another FANFARE_TABLE, or delete it", d.Name, strings.Join(d.Differences, "; "))
	}
	return answer, err
}

// tableModel prints the data model of the product, in the format of NoSQL Workbench.
func (a *app) tableModel(_ context.Context, cfg config.Config) (answer admin.Answer, err error) {
	design, err := schema.WorkbenchModel(cfg.Table)
	if err == nil {
		_, err = a.stdout.Write(design)
	}
	return answer, err
}

func (a *app) queuesCommand() *cobra.Command {
	return group("queues", "Set up the SQS queues",
		a.setupCommand("create", "Create the queues and their dead-letter queues, unless they exist", a.createQueues),
		a.setupCommand("describe", "Print how many messages the queues hold", a.describeQueues))
}

func (a *app) createQueues(ctx context.Context, cfg config.Config) (answer admin.Answer, err error) {
	broker, err := daemon.OpenQueues(ctx, cfg)
	if err != nil {
		return answer, err
	}
	err = broker.Create(ctx)
	a.trail(cfg).Note(ctx, "queues create", 0, err, zap.String("prefix", cfg.QueuePrefix))
	if err := errors.Join(err, broker.Close()); err != nil {
		return answer, err
	}
	var names []string
	for _, topic := range queue.Topics() {
		names = append(names, cfg.QueuePrefix+"-"+topic)
	}
	answer.JSON = struct {
		Queues []string `json:"queues"`
	}{names}
	answer.Text = fmt.Sprintf("queues %s exist", strings.Join(names, ", "))
	return answer, nil
}

func (*app) describeQueues(ctx context.Context, cfg config.Config) (answer admin.Answer, err error) {
	type depth struct {
		Ready    int64 `json:"ready"`
		Delayed  int64 `json:"delayed"`
		InFlight int64 `json:"in_flight"`
		Dead     int64 `json:"dead"`
	}
	broker, err := daemon.OpenQueues(ctx, cfg)
	if err != nil {
		return answer, err
	}
	depths := map[string]depth{}
	rows := [][]string{{"QUEUE", "READY", "DELAYED", "IN FLIGHT", "DEAD"}}
	queues, err := broker.Describe(ctx)
	if err := errors.Join(err, broker.Close()); err != nil {
		return answer, err
	}
	for _, q := range queues {
		depths[q.Name] = depth(q.Depth)
		row := []string{q.Name}
		for _, n := range []int64{q.Depth.Ready, q.Depth.Delayed, q.Depth.InFlight, q.Depth.Dead} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, row)
	}
	return admin.Answer{JSON: depths, Rows: rows}, nil
}
