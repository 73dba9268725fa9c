package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/ops/capacity"
)

const capacityHelp = `Multiplies a load by the capacity units, queue requests and bytes of the product, which tests
hold and docs/ACCESS_PATTERNS.md lists, and prints the bill of a month on AWS line by line, the
limits that the load meets, and the cost of other ways. --deliveries-per-cpu-second and the other
rates decide how many tasks it takes.

The prices are list prices of us-east-1. --prices replaces them by a file of the same form, which
--print-prices prints; each price has its unit, date and source.

With --billing provisioned, the table's capacity follows the load: --table-use of it is used,
and the units of --reserved-wcu and --reserved-rcu are paid day and night at a lower price.
docs/CAPACITY.md names the networks that do not need AWS.`

// capacityRun has the settings of one call of `fanfare capacity`.
type capacityRun struct {
	*app
	load                capacity.Load
	deployment          capacity.Deployment
	prices              string
	asJSON, printPrices bool
}

func (a *app) capacityCommand() *cobra.Command {
	r := &capacityRun{app: a, load: capacity.DefaultLoad(), deployment: capacity.DefaultDeployment()}
	c := &cobra.Command{
		Use:   "capacity",
		Short: "Estimate the bill of a load on AWS, from measured units",
		Long:  capacityHelp,
		Args:  cobra.NoArgs,
		RunE:  r.run,
	}
	f, l, d := c.Flags(), &r.load, &r.deployment
	for _, s := range append(l.Settings(), d.Settings()...) {
		f.Float64Var(s.Value, s.Name, *s.Value, s.Usage)
	}
	f.BoolVar(&l.LikesByUser, "likes-by-user", l.LikesByUser, "keep the index of likes by user")
	f.BoolVar(&l.Notifications, "notifications", l.Notifications, "keep notifications (FANFARE_NOTIFICATIONS)")
	f.BoolVar(&l.StreamLikes, "stream-likes", l.StreamLikes, "send like counts to live homes, once a minute")
	f.StringVar(&d.Billing, "billing", d.Billing, "how the table is paid for: on-demand or provisioned")
	f.StringVar(&d.Network, "network", d.Network, "the way out of the tasks: addresses (one each) or nat (two gateways)")
	f.BoolVar(&d.Endpoint, "endpoint", d.Endpoint, "the VPC has a gateway endpoint for DynamoDB (with --network nat)")
	f.BoolVar(&d.Recovery, "recovery", d.Recovery, "point-in-time recovery of the table")
	f.BoolVar(&d.Support, "support", d.Support, "a Business support plan")
	f.StringVar(&r.prices, "prices", "", "read the prices from a `file`")
	f.BoolVar(&r.asJSON, "json", false, "print one JSON object")
	f.BoolVar(&r.printPrices, "print-prices", false, "print the prices, as --prices reads them")
	c.MarkFlagsMutuallyExclusive("json", "print-prices")
	return c
}

func (r *capacityRun) run(c *cobra.Command, _ []string) error {
	r.deployment.Given(c.Flags().Changed)
	if err := errors.Join(r.load.Check(), r.deployment.Check()); err != nil {
		return wrongUse(err)
	}
	prices, err := r.readPrices()
	if err != nil {
		return err
	}
	if warning := prices.Stale(time.Now()); warning != "" {
		fmt.Fprintf(r.stderr, "warning: %s\n", printable(warning))
	}
	estimate := capacity.New(r.load, r.deployment, prices)
	switch {
	case r.printPrices:
		return r.printJSON(prices)
	case r.asJSON:
		return r.printJSON(estimate)
	}
	_, err = fmt.Fprint(r.stdout, estimate)
	return err
}

// readPrices returns the prices of the given file. If no file is given, readPrices returns
// the prices of the binary.
func (r *capacityRun) readPrices() (capacity.Prices, error) {
	if r.prices == "" {
		return capacity.ListPrices()
	}
	text, err := os.ReadFile(r.prices)
	if err != nil {
		return capacity.Prices{}, fmt.Errorf("--prices: %w", err)
	}
	prices, err := capacity.ReadPrices(text)
	if err != nil {
		return capacity.Prices{}, wrongUse(fmt.Errorf("--prices %s: %w", r.prices, err))
	}
	return prices, nil
}
