package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"fanfare/internal/ops/capacity"
)

func (a *app) capacityCommand() *cobra.Command {
	var asJSON bool
	load, prices := capacity.DefaultLoad(), capacity.DefaultPrices()
	c := &cobra.Command{
		Use:   "capacity",
		Short: "Estimate the cost of a load on AWS, from measured units",
		Long: `Multiplies a load by the capacity units and queue requests of the product, which tests
hold and docs/ACCESS_PATTERNS.md lists. --deliveries-per-cpu-second and the other rates
decide how many workers it takes. The default prices are those of us-east-1, on demand,
in dollars: give yours. docs/CAPACITY.md walks through three sizes.`,
		Args: cobra.NoArgs,
	}
	load.Flags(c.Flags())
	prices.Flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(*cobra.Command, []string) error {
		if err := errors.Join(load.Check(), prices.Check()); err != nil {
			return wrongUse(err)
		}
		estimate := capacity.New(load, prices)
		if asJSON {
			return a.printJSON(estimate)
		}
		_, err := fmt.Fprint(a.stdout, estimate)
		return err
	}
	return c
}
