package capacity

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"fanfare/internal/strictjson"
)

// Price is a list price: its value and unit, its source, and the month of the source.
type Price struct {
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Date   string  `json:"date"`
	Source string  `json:"source"`
	// FromMemory marks a price that no source confirmed.
	FromMemory bool `json:"from_memory,omitempty"`
}

// Prices has all prices of a bill.
type Prices struct {
	Region string           `json:"region"`
	Prices map[string]Price `json:"prices"`
}

//go:embed prices.json
var listPrices []byte

// monthLayout is the time layout of a price's date.
const monthLayout = "2006-01"

// freshMonths is the number of months, after its own month, for which a price is fresh.
const freshMonths = 12

// The names of the prices in prices.json.
const (
	priceWrite            = "table_write"
	priceRead             = "table_read"
	priceProvisionedWrite = "provisioned_write"
	priceProvisionedRead  = "provisioned_read"
	priceReserved         = "reserved_discount"
	priceStorage          = "storage"
	priceRecovery         = "recovery"
	priceRequest          = "queue_request"
	priceGroup            = "queue_group"
	priceTaskCPU          = "task_cpu"
	priceTaskMemory       = "task_memory"
	priceBalancerHour     = "balancer_hour"
	priceBalancerUnit     = "balancer_unit"
	priceNATHour          = "nat_hour"
	priceNATGB            = "nat_gb"
	priceAddress          = "address_hour"
	priceEgress10         = "egress_to_10_tb"
	priceEgress50         = "egress_to_50_tb"
	priceEgress150        = "egress_to_150_tb"
	priceEgressAbove      = "egress_above"
	priceLog              = "log_gb"
	priceMetric           = "metric"
	priceAlarm            = "alarm"
	priceSupportLeast     = "support_least"
	priceSupport10        = "support_to_10k"
	priceSupport80        = "support_to_80k"
	priceSupport250       = "support_to_250k"
	priceSupportAbove     = "support_above"
	priceMachineCPU       = "machine_cpu"
	priceDisk             = "disk_gb"
	priceSnapshot         = "snapshot_gb"
)

// maxPrice is above each price of AWS, and keeps sums finite.
const maxPrice = 1e6

// ListPrices returns the prices of the binary.
func ListPrices() (Prices, error) {
	var p Prices
	if err := strictjson.UnmarshalKnown(listPrices, &p); err != nil {
		return Prices{}, fmt.Errorf("the list of prices in the binary: %w", err)
	}
	return p, nil
}

// ReadPrices reads a list that replaces the prices of the binary. The list must have the same
// prices in the same units, so that a price for a thousand is never used as a price for a million.
func ReadPrices(text []byte) (Prices, error) {
	list, err := ListPrices()
	if err != nil {
		return Prices{}, err
	}
	var p Prices
	if err := strictjson.UnmarshalKnown(text, &p); err != nil {
		return Prices{}, err
	}
	var faults []error
	if p.Region == "" {
		faults = append(faults, errors.New("region: name the region of the prices"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Prices)) {
		if _, known := list.Prices[name]; !known {
			faults = append(faults, fmt.Errorf("prices.%s: there is no such price", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list.Prices)) {
		price, there := p.Prices[name]
		if !there {
			faults = append(faults, fmt.Errorf("prices.%s: is missing", name))
			continue
		}
		if err := price.check(list.Prices[name].Unit); err != nil {
			faults = append(faults, fmt.Errorf("prices.%s.%w", name, err))
		}
	}
	if len(faults) > 0 {
		return Prices{}, errors.Join(faults...)
	}
	return p, nil
}

// check returns an error that begins with the name of the wrong field.
func (p Price) check(unit string) error {
	switch {
	case math.IsNaN(p.Value) || p.Value < 0 || p.Value > maxPrice:
		return fmt.Errorf("value: %v is not from 0 to %v", p.Value, float64(maxPrice))
	case p.Unit != unit:
		return fmt.Errorf("unit: %q must be %q", p.Unit, unit)
	case p.Source == "":
		return errors.New("source: name where the price is from")
	case (unit == "share of the bill" || unit == shareSaved) && p.Value > 1:
		return fmt.Errorf("value: %v is a share, so it cannot be above 1", p.Value)
	}
	if _, err := time.Parse(monthLayout, p.Date); err != nil {
		return fmt.Errorf("date: %q is no month such as 2026-11", p.Date)
	}
	return nil
}

// shareSaved is the unit of a reservation's discount.
const shareSaved = "share of the price that a reservation of a year saves"

// of returns the value of the price with a name.
func (p Prices) of(name string) float64 { return p.Prices[name].Value }

// Oldest returns the date of the oldest price.
func (p Prices) Oldest() string {
	oldest := ""
	for _, price := range p.Prices {
		if oldest == "" || price.Date < oldest {
			oldest = price.Date
		}
	}
	return oldest
}

// FromMemory returns the names of the prices that no source confirmed.
func (p Prices) FromMemory() []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(p.Prices)) {
		if p.Prices[name].FromMemory {
			names = append(names, name)
		}
	}
	return names
}

// Stale returns a warning if a price is older than a year, or if the date of a price is
// after now. Otherwise it returns "".
func (p Prices) Stale(now time.Time) string {
	var old, ahead []string
	for _, name := range slices.Sorted(maps.Keys(p.Prices)) {
		month, err := time.Parse(monthLayout, p.Prices[name].Date)
		switch {
		case err != nil: // check refuses such a date
		case month.After(now):
			ahead = append(ahead, name)
		case !now.Before(month.AddDate(0, 1+freshMonths, 0)):
			old = append(old, name)
		}
	}
	switch {
	case len(ahead) > 0:
		return fmt.Sprintf("the date of %s is in the future: mend it in the file of --prices", ahead[0])
	case len(old) > 0:
		return fmt.Sprintf("%d prices are more than a year old, the oldest of %s: give present ones with --prices", len(old), p.Oldest())
	}
	return ""
}
