package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fanfare/internal/table/dynamo"
)

// mostUnits is the maximum of a ceiling or a capacity. AWS allows a table 40,000 units a second, and more
// by request.
const mostUnits = 9_999_999

// billingFlags are the flags of the command table create for the table's capacity.
type billingFlags struct {
	command           *cobra.Command
	billing           string
	maxWrite, maxRead int64
	// units are the values of the flags for the ranges, in the order of dynamo.Dimensions.
	units [4]string
}

// unitFlags returns the names of the flags for the ranges, in the order of dynamo.Dimensions.
func unitFlags() [4]string {
	return [4]string{"write-units", "read-units", "index-write-units", "index-read-units"}
}

func addBillingFlags(c *cobra.Command) *billingFlags {
	b, flags := &billingFlags{command: c}, c.Flags()
	flags.StringVar(&b.billing, "billing", "", "on-demand or provisioned (on-demand for a new table)")
	flags.Int64Var(&b.maxWrite, "max-write", 0, "on demand, the most write units a second of the table and again of its index, 0 for no ceiling")
	flags.Int64Var(&b.maxRead, "max-read", 0, "the same for read units")
	for i, d := range dynamo.Dimensions("") {
		flags.StringVar(&b.units[i], unitFlags()[i], "", "provisioned, the least and the most units a second for "+d.Of+", such as 500-10000")
	}
	return b
}

// plan returns the capacity that the flags request. An impossible capacity is a usage error.
func (b *billingFlags) plan() (dynamo.Plan, error) {
	var p dynamo.Plan
	switch b.billing {
	case "":
	case "on-demand":
		p.Billing = dynamo.OnDemand
	case "provisioned":
		p.Billing = dynamo.Provisioned
	default:
		return p, wrongUse(fmt.Errorf("--billing: %q is not on-demand or provisioned", b.billing))
	}
	if err := errors.Join(b.ceiling("max-write", b.maxWrite, &p.MaxWrite), b.ceiling("max-read", b.maxRead, &p.MaxRead)); err != nil {
		return p, wrongUse(err)
	}
	for i, name := range unitFlags() {
		into := [4]*dynamo.Range{&p.Table.Write, &p.Table.Read, &p.Index.Write, &p.Index.Read}[i]
		if err := b.within(name, b.units[i], into); err != nil {
			return p, wrongUse(err)
		}
	}
	return p, nil
}

// ceiling checks a ceiling. If the flag was given, the ceiling is stored in *into.
func (b *billingFlags) ceiling(name string, units int64, into **int64) error {
	if !b.command.Flags().Changed(name) {
		return nil
	}
	if b.billing == "provisioned" {
		return fmt.Errorf("--%s is for a table on demand: with provisioned capacity the end of --%s-units is the ceiling, so leave --%s out", name, strings.TrimPrefix(name, "max-"), name)
	}
	if units < 0 || units > mostUnits {
		return fmt.Errorf("--%s: %d is not from 1 to %d, or 0 for no ceiling", name, units, mostUnits)
	}
	*into = &units
	return nil
}

// within reads the range of a flag. Only provisioned capacity has ranges.
func (b *billingFlags) within(name, text string, into *dynamo.Range) error {
	provisioned := b.billing == "provisioned"
	switch {
	case !provisioned && b.command.Flags().Changed(name):
		return fmt.Errorf("--%s is for --billing provisioned: add that, or set a ceiling by --max-write and --max-read", name)
	case !provisioned:
		return nil
	case text == "":
		return fmt.Errorf("--billing provisioned needs --%s, the least and the most units a second, such as 500-10000", name)
	}
	first, last, ok := strings.Cut(text, "-")
	least, err := strconv.ParseInt(first, 10, 64)
	most, err2 := strconv.ParseInt(last, 10, 64)
	switch {
	case !ok || err != nil || err2 != nil:
		return fmt.Errorf("--%s: %q is not the least and the most units a second, such as 500-10000", name, text)
	case least < 1 || most > mostUnits:
		return fmt.Errorf("--%s: %q is not between 1 and %d", name, text, mostUnits)
	case least > most:
		return fmt.Errorf("--%s: the least units, %d, are above the most, %d: write the smaller number first", name, least, most)
	}
	*into = dynamo.Range{Least: least, Most: most}
	return nil
}

// scaling returns the commands that scale the units of a plan. A plan on demand has no such commands.
func scaling(p dynamo.Plan, tableName string) []string {
	var commands []string
	if p.Billing != dynamo.Provisioned {
		return commands
	}
	for i, d := range dynamo.Dimensions(tableName) {
		of := fmt.Sprintf("--service-namespace dynamodb --resource-id %s --scalable-dimension %s", d.Resource, d.Name)
		metric := map[bool]string{true: "DynamoDBWriteCapacityUtilization", false: "DynamoDBReadCapacityUtilization"}[d.Write]
		commands = append(commands,
			fmt.Sprintf("aws application-autoscaling register-scalable-target %s --min-capacity %d --max-capacity %d", of, p.Range(d).Least, p.Range(d).Most),
			fmt.Sprintf(`aws application-autoscaling put-scaling-policy %s --policy-name %s --policy-type TargetTrackingScaling --target-tracking-scaling-policy-configuration '{"TargetValue":%d,"PredefinedMetricSpecification":{"PredefinedMetricType":%q}}'`,
				of, strings.TrimSuffix(unitFlags()[i], "-units")+"s", d.Target, metric))
	}
	return commands
}
