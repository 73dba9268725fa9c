package dynamo

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// These are the billing modes of a table.
const (
	OnDemand    = string(types.BillingModePayPerRequest)
	Provisioned = string(types.BillingModeProvisioned)
)

// Units are capacity units a second.
type Units struct {
	Write int64 `json:"write"`
	Read  int64 `json:"read"`
}

// Capacity is the billing mode of a table, and the bounds of its units.
type Capacity struct {
	Billing string `json:"billing"`
	// Max and IndexMax are the ceilings of a table on demand, 0 for no ceiling.
	Max      Units `json:"max"`
	IndexMax Units `json:"index_max"`
	// Table and Index are the provisioned units, 0 for a table on demand.
	Table Units `json:"table"`
	Index Units `json:"index"`
}

// Text describes the capacity for people.
func (c Capacity) Text() string {
	switch {
	case c.Billing == Provisioned:
		return fmt.Sprintf("provisioned: %d write and %d read units a second, and %d and %d of the index", c.Table.Write, c.Table.Read, c.Index.Write, c.Index.Read)
	case c.Max == Units{} && c.IndexMax == Units{}:
		return "on demand, without a ceiling"
	}
	return fmt.Sprintf("on demand: at most %s write and %s read units a second, and %s and %s of the index", ceiling(c.Max.Write), ceiling(c.Max.Read), ceiling(c.IndexMax.Write), ceiling(c.IndexMax.Read))
}

func ceiling(units int64) string {
	if units == 0 {
		return "any"
	}
	return fmt.Sprint(units)
}

// Range is the minimum and the maximum of the units to which a policy scales.
type Range struct{ Least, Most int64 }

// Ranges are the ranges of the writes and of the reads.
type Ranges struct{ Write, Read Range }

// Plan is a requested capacity. The zero Plan requests nothing: a new table is on demand
// without a ceiling, and an existing table may have any capacity.
type Plan struct {
	// Billing is a billing mode, "" for any mode.
	Billing string
	// MaxWrite and MaxRead are ceilings of the table, and also of its index. 0 means no
	// ceiling, and nil means any ceiling.
	MaxWrite, MaxRead *int64
	// Table and Index are the ranges of provisioned units. A new table begins with the minimum of each range.
	Table, Index Ranges
}

// CapacityError means that the table has another capacity than was requested.
type CapacityError struct {
	Table       string
	Differences []string
	// Mend is the command that changes the capacity.
	Mend string
}

func (e *CapacityError) Error() string {
	return fmt.Sprintf("table: %q exists with another capacity (%s): if a stack made it, change the parameters of the stack, else run: %s", e.Table, strings.Join(e.Differences, "; "), e.Mend)
}

// Dimension is one of the four numbers of capacity units that a table has.
type Dimension struct {
	// Of is the dimension's name for people.
	Of           string
	Write, Index bool
	// Resource and Name are the dimension's names in Application Auto Scaling.
	Resource, Name string
	// Target is the share of the units, in percent, that a policy allows to be used. Fan-out slows
	// down its writes when capacity is short, but nothing slows down reads. A full index refuses
	// writes of the table.
	Target int64
}

// Dimensions returns the four dimensions of a table.
func Dimensions(tableName string) []Dimension {
	resource, index := "table/"+tableName, "table/"+tableName+"/index/"+indexName
	return []Dimension{
		{Of: "writes of the table", Write: true, Resource: resource, Name: "dynamodb:table:WriteCapacityUnits", Target: 70},
		{Of: "reads of the table", Resource: resource, Name: "dynamodb:table:ReadCapacityUnits", Target: 60},
		{Of: "writes of the index", Write: true, Index: true, Resource: index, Name: "dynamodb:index:WriteCapacityUnits", Target: 50},
		{Of: "reads of the index", Index: true, Resource: index, Name: "dynamodb:index:ReadCapacityUnits", Target: 50},
	}
}

// Bound returns the units that a dimension may use: the provisioned units, or the ceiling of a table
// on demand, 0 for no ceiling.
func (c Capacity) Bound(d Dimension) int64 {
	if c.Billing == Provisioned {
		return c.Table.of(c.Index, d)
	}
	return c.Max.of(c.IndexMax, d)
}

func (u Units) of(index Units, d Dimension) int64 {
	if d.Index {
		u = index
	}
	if d.Write {
		return u.Write
	}
	return u.Read
}

// Range returns the range of a dimension.
func (p Plan) Range(d Dimension) Range {
	ranges := p.Table
	if d.Index {
		ranges = p.Index
	}
	if d.Write {
		return ranges.Write
	}
	return ranges.Read
}

// ceiling returns the plan's ceiling for a dimension, nil for any ceiling.
func (p Plan) ceiling(d Dimension) *int64 {
	if d.Write {
		return p.MaxWrite
	}
	return p.MaxRead
}

// differs returns the reason why a dimension of c does not match p, "" if the dimension matches.
func (p Plan) differs(c Capacity, d Dimension) string {
	most, within := p.ceiling(d), p.Range(d)
	switch {
	case p.Billing == Provisioned:
		if units := c.Bound(d); units < within.Least || units > within.Most {
			return fmt.Sprintf("%s have %d units, not %d to %d", d.Of, units, within.Least, within.Most)
		}
	case most != nil && *most != c.Bound(d):
		return fmt.Sprintf("%s may take %s units, not %s", d.Of, ceiling(c.Bound(d)), ceiling(*most))
	}
	return ""
}

// differences returns the reasons why the capacity c does not match p.
func (p Plan) differences(c Capacity) (out []string) {
	switch {
	case p.Billing != "" && p.Billing != c.Billing:
		return []string{fmt.Sprintf("its billing mode is %s, not %s", c.Billing, p.Billing)}
	case p.Billing == "" && c.Billing == Provisioned && (ifAny(p.MaxWrite) != nil || ifAny(p.MaxRead) != nil):
		return []string{"its billing mode is " + Provisioned + ", and a ceiling is for a table on demand"}
	case p.Billing == "" && c.Billing == Provisioned:
		return nil
	}
	for _, d := range Dimensions("") {
		if reason := p.differs(c, d); reason != "" {
			out = append(out, reason)
		}
	}
	return out
}

// update returns the command that changes a table with the capacity c to the plan. AWS refuses a
// command that sets units to their present values, so the command names the table and the index only
// if their units change.
func (p Plan) update(tableName string, c Capacity) string {
	command := "aws dynamodb update-table --table-name " + tableName
	kind, billing := "OnDemandThroughput", OnDemand
	if p.Billing == Provisioned {
		kind, billing = "ProvisionedThroughput", Provisioned
	}
	if c.Billing != billing {
		command += " --billing-mode " + billing
		c = Capacity{Billing: billing}
	}
	table, index := Dimensions("")[:2], Dimensions("")[2:]
	if units := p.changed(c, table); units != "" {
		command += fmt.Sprintf(" --%s '%s'", map[string]string{OnDemand: "on-demand-throughput", Provisioned: "provisioned-throughput"}[billing], units)
	}
	if units := p.changed(c, index); units != "" {
		command += fmt.Sprintf(` --global-secondary-index-updates '[{"Update":{"IndexName":%q,%q:%s}}]'`, indexName, kind, units)
	}
	return command
}

// changed returns the units of the table or of the index as JSON, "" if the units do not change.
func (p Plan) changed(c Capacity, dimensions []Dimension) string {
	var parts []string
	stay := true
	for _, d := range dimensions {
		kind := map[bool]string{true: "Write", false: "Read"}[d.Write]
		within, most := p.Range(d), p.ceiling(d)
		stay = stay && p.differs(c, d) == ""
		switch {
		case p.Billing == Provisioned:
			parts = append(parts, fmt.Sprintf(`"%sCapacityUnits":%d`, kind, min(max(c.Bound(d), within.Least), within.Most)))
		case most != nil && *most == 0:
			parts = append(parts, fmt.Sprintf(`"Max%sRequestUnits":-1`, kind)) // removes the ceiling
		case most != nil:
			parts = append(parts, fmt.Sprintf(`"Max%sRequestUnits":%d`, kind, *most))
		}
	}
	if stay {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// applyTo sets the capacity of a new table.
func (p Plan) applyTo(in *dynamodb.CreateTableInput) {
	index := &in.GlobalSecondaryIndexes[0]
	if p.Billing == Provisioned {
		in.BillingMode = types.BillingModeProvisioned
		in.ProvisionedThroughput, index.ProvisionedThroughput = p.Table.begin(), p.Index.begin()
		return
	}
	in.BillingMode = types.BillingModePayPerRequest
	most := types.OnDemandThroughput{MaxWriteRequestUnits: ifAny(p.MaxWrite), MaxReadRequestUnits: ifAny(p.MaxRead)}
	if most != (types.OnDemandThroughput{}) {
		in.OnDemandThroughput, index.OnDemandThroughput = &most, &most
	}
}

func (r Ranges) begin() *types.ProvisionedThroughput {
	return &types.ProvisionedThroughput{WriteCapacityUnits: &r.Write.Least, ReadCapacityUnits: &r.Read.Least}
}

// ifAny returns a ceiling, nil if there is no ceiling: DynamoDB does not accept 0.
func ifAny(most *int64) *int64 {
	if most == nil || *most == 0 {
		return nil
	}
	return most
}

// capacityOf reads the capacity from DynamoDB's description of a table.
func capacityOf(t *types.TableDescription) Capacity {
	c := Capacity{Billing: Provisioned} // DynamoDB names only OnDemand
	if b := t.BillingModeSummary; b != nil {
		c.Billing = string(b.BillingMode)
	}
	c.Max, c.Table = ceilings(t.OnDemandThroughput), unitsOf(t.ProvisionedThroughput)
	for _, index := range t.GlobalSecondaryIndexes {
		if aws.ToString(index.IndexName) == indexName {
			c.IndexMax, c.Index = ceilings(index.OnDemandThroughput), unitsOf(index.ProvisionedThroughput)
		}
	}
	return c
}

// ceilings returns the ceilings in a description. DynamoDB shows -1 for a moment after a ceiling was removed.
func ceilings(most *types.OnDemandThroughput) Units {
	if most == nil {
		return Units{}
	}
	return Units{Write: max(0, aws.ToInt64(most.MaxWriteRequestUnits)), Read: max(0, aws.ToInt64(most.MaxReadRequestUnits))}
}

func unitsOf(t *types.ProvisionedThroughputDescription) Units {
	if t == nil {
		return Units{}
	}
	return Units{Write: aws.ToInt64(t.WriteCapacityUnits), Read: aws.ToInt64(t.ReadCapacityUnits)}
}
