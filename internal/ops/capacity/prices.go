package capacity

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

const (
	monthLayout = "2006-01" // of a price's date
	freshMonths = 12        // after its own month, a price is fresh for this number of months
	maxPrice    = 1e6       // above each price of AWS; the bound keeps sums finite
)

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
	var f faults
	f.add(p.Region == "", "region: name the region of the prices")
	for _, name := range slices.Sorted(maps.Keys(p.Prices)) {
		_, known := list.Prices[name]
		f.add(!known, "prices.%s: there is no such price", name)
	}
	for _, name := range slices.Sorted(maps.Keys(list.Prices)) {
		price, there := p.Prices[name]
		if !there {
			f.add(true, "prices.%s: is missing", name)
			continue
		}
		unit := list.Prices[name].Unit
		f.add(price.Value < 0 || price.Value > maxPrice, "prices.%s.value: %v is not from 0 to %v", name, price.Value, float64(maxPrice))
		f.add(strings.HasPrefix(unit, "share ") && price.Value > 1, "prices.%s.value: %v is a share, so it cannot be above 1", name, price.Value)
		f.add(price.Unit != unit, "prices.%s.unit: %q must be %q", name, price.Unit, unit)
		f.add(price.Source == "", "prices.%s.source: name where the price is from", name)
		_, err := time.Parse(monthLayout, price.Date)
		f.add(err != nil, "prices.%s.date: %q is no month such as 2026-11", name, price.Date)
	}
	if len(f) > 0 {
		return Prices{}, errors.Join(f...)
	}
	return p, nil
}

// of returns the value of the price with a name. Tests compare the bills, so a wrong name is found.
func (p Prices) of(name string) float64 { return p.Prices[name].Value }

// Oldest returns the date of the oldest price.
func (p Prices) Oldest() string {
	return slices.MinFunc(slices.Collect(maps.Values(p.Prices)), func(a, b Price) int { return strings.Compare(a.Date, b.Date) }).Date
}

// FromMemory returns the names of the prices that no source confirmed.
func (p Prices) FromMemory() []string { return p.names(func(p Price) bool { return p.FromMemory }) }

// names returns the sorted names of the prices that match.
func (p Prices) names(match func(Price) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.Prices)), func(name string) bool { return !match(p.Prices[name]) })
}

// Stale returns a warning if a price is older than a year, or if the date of a price is
// after now. Otherwise it returns "".
func (p Prices) Stale(now time.Time) string {
	month := func(price Price) time.Time {
		at, _ := time.Parse(monthLayout, price.Date) // check refuses other dates
		return at
	}
	if ahead := p.names(func(price Price) bool { return month(price).After(now) }); len(ahead) > 0 {
		return fmt.Sprintf("the date of %s is in the future: mend it in the file of --prices", ahead[0])
	}
	if old := p.names(func(price Price) bool { return !now.Before(month(price).AddDate(0, 1+freshMonths, 0)) }); len(old) > 0 {
		return fmt.Sprintf("%d prices are more than a year old, the oldest of %s: give present ones with --prices", len(old), p.Oldest())
	}
	return ""
}
