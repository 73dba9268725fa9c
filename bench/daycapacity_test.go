package main

import (
	"fmt"
	"time"

	"fanfare/internal/table/tabletest"
)

// These are the names of the billing modes.
const onDemand, provisioned = "on demand", "provisioned"

// These are the rules of target tracking in DynamoDB: capacity grows after two minutes above the target and
// shrinks after fifteen minutes below four fifths of the target, and a change takes effect two minutes later.
// A table and an index may shrink four times a day, and once more after each hour without a decrease: 27 times
// in all.
const (
	growAfter, shrinkAfter = 2, 15
	shrinkBelow            = 0.8
	takesEffect            = 2
	freeShrinks            = 4
	shrinkEvery            = 60
)

// These are the list prices of us-east-1, for an hour of a provisioned unit, and for a unit on demand.
const (
	writeHour, readHour         = 0.00065, 0.00013
	writeOnDemand, readOnDemand = 0.625e-6, 0.125e-6
	daysAMonth                  = 30.4
)

// These are results for the same day, with a spike of 1.5, in a model without the product: the dollars a
// month, and the used share of the provisioned writes and reads.
const (
	flowsOnDemand, flowsProvisioned = 55_590, 27_483
	flowsWrites, flowsReads         = 60.7, 52.2
)

// shrinks counts the decreases of a table or an index today. last is the minute of the last decrease.
type shrinks struct{ today, last int }

func (s *shrinks) allowed(minute int) bool {
	return s.today < freeShrinks || minute-s.last >= shrinkEvery
}

// tracked is the capacity of one kind, in units a second. It follows the use.
type tracked struct {
	kind tabletest.Kind
	// target is the share of the capacity that should be in use, 0 on demand.
	target          float64
	capacity, least float64
	// reserve is the number of units of the largest action. The capacity keeps a reserve of twice this
	// number, because an action of a scaled network is as large as an action of the real network, but the
	// scaled table is smaller.
	reserve      float64
	above, below int // minutes
	// next is the capacity from the minute due on, 0 if no change is planned.
	next        float64
	due         int
	began, last tabletest.Usage
	// held is the capacity added up over the time since the beginning, in units.
	held    float64
	changes int
	shrinks *shrinks
}

// minute records the use of the past minute, and changes the capacity.
func (c *tracked) minute(minute int, now tabletest.Usage) {
	used := (now.Units - c.last.Units) / 60
	c.last, c.held = now, c.held+60*c.capacity
	if c.target == 0 { // on demand a table accepts twice its previous peak
		c.capacity = max(c.capacity, 2*used)
		return
	}
	if c.next > 0 && minute >= c.due {
		if c.next < c.capacity {
			c.shrinks.today, c.shrinks.last = c.shrinks.today+1, minute
		}
		c.capacity, c.next, c.above, c.below = c.next, 0, 0, 0
		c.changes++
	}
	c.above, c.below = longer(c.above, used > c.target*c.capacity), longer(c.below, used < shrinkBelow*c.target*c.capacity)
	if c.next == 0 && (c.above >= growAfter || c.below >= shrinkAfter && c.shrinks.allowed(minute)) {
		c.next, c.due = max(c.least, used/c.target), minute+takesEffect
	}
}

// units is the number of units used since the beginning.
func (c *tracked) units() float64 { return c.last.Units - c.began.Units }

// refused is the percentage of tries that the table refused.
func (c *tracked) refused() float64 {
	return 100 * float64(c.last.Refused-c.began.Refused) / float64(max(1, c.last.Tries-c.began.Tries))
}

// longer counts the consecutive minutes in which a condition holds.
func longer(minutes int, still bool) int {
	if still {
		return minutes + 1
	}
	return 0
}

// billed holds the capacities of a scaled table, one for each kind.
type billed struct {
	table *tabletest.Limited
	kinds []*tracked
	scale float64
	begun time.Time
}

// newBilled returns the capacity of a table that has no limits yet, and begins to count its use.
func newBilled(table *tabletest.Limited, scale float64) *billed {
	ofTable, ofIndex := new(shrinks), new(shrinks)
	b := &billed{table: table, scale: scale, begun: time.Now(), kinds: []*tracked{
		{kind: tabletest.Writes, target: 0.7, least: 1000 / scale, reserve: largestWrites, shrinks: ofTable},
		{kind: tabletest.Reads, target: 0.6, least: 1000 / scale, reserve: largestReads, shrinks: ofTable},
		{kind: tabletest.IndexWrites, target: 0.5, least: 100 / scale, reserve: 5, shrinks: ofIndex},
		{kind: tabletest.IndexReads, target: 0.5, least: 100 / scale, reserve: 5, shrinks: ofIndex},
	}}
	for _, c := range b.kinds {
		c.began = table.Used(c.kind)
	}
	return b
}

// limit gives the table its first capacity. Provisioned capacity follows the use so far. On-demand
// capacity follows the peak of the previous day, which was peak times as high as the use so far.
func (b *billed) limit(mode string, peak float64) {
	for _, c := range b.kinds {
		used := b.table.Used(c.kind)
		rate := (used.Units - c.began.Units) / time.Since(b.begun).Seconds()
		c.capacity, c.began, c.last = max(c.least, rate/c.target), used, used
		if mode == onDemand {
			c.capacity, c.target = 2*peak*rate, 0
		}
		b.table.SetLimit(c.kind, c.capacity, 2*c.reserve)
	}
	b.begun = time.Now()
}

func (b *billed) minute(minute int) {
	for _, c := range b.kinds {
		c.minute(minute, b.table.Used(c.kind))
		b.table.SetLimit(c.kind, c.capacity, 2*c.reserve)
	}
}

// month returns the dollars that the unscaled table costs in a month of such days.
func (b *billed) month() float64 {
	sum := 0.0
	for _, c := range b.kinds {
		hour, unit := writeHour, writeOnDemand
		if c.kind == tabletest.Reads || c.kind == tabletest.IndexReads {
			hour, unit = readHour, readOnDemand
		}
		if c.target > 0 {
			sum += c.held / 3600 * hour
		} else {
			sum += c.units() * unit
		}
	}
	return sum * b.scale * daysAMonth * oneDay.Seconds() / time.Since(b.begun).Seconds()
}

// results returns the rows of the table, and for a whole day also the rows of the model.
func (b *billed) results(mode string) []Result {
	whole := time.Since(b.begun) >= oneDay
	month := Result{Name: "a month of the table, scaled back", Value: b.month(), Unit: "$", Note: fmt.Sprintf("1 : %.0f", b.scale)}.reported()
	if whole {
		month = month.below("a model of flows", map[string]float64{onDemand: flowsOnDemand, provisioned: flowsProvisioned}[mode])
	}
	rows := []Result{month}
	for i, name := range []string{"writes", "reads", "writes of the index", "reads of the index"} {
		c := b.kinds[i]
		if mode == provisioned {
			row := Result{Name: "used capacity for " + name, Value: 100 * c.units() / c.held, Unit: "%", Note: fmt.Sprintf("%d changes of the capacity", c.changes)}.reported()
			if model := []float64{flowsWrites, flowsReads}; whole && i < len(model) {
				row = row.beside("a model of flows", model[i])
			}
			rows = append(rows, row)
		}
		refused := Result{Name: "refused tries of " + name, Value: c.refused(), Unit: "%"}
		switch {
		case mode == onDemand:
			rows = append(rows, refused.reach("0", refused.Value == 0))
		case c.kind == tabletest.Writes:
			rows = append(rows, refused.reach("> 0, so that the rows below show a throttled table", refused.Value > 0))
		default:
			rows = append(rows, refused.reported())
		}
	}
	return rows
}
