package capacity

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changed returns the price list of the binary with old replaced by replacement.
func changed(t *testing.T, old, replacement string) []byte {
	t.Helper()
	require.Equalf(t, 1, strings.Count(string(listPrices), old), "%q occurs once in the list", old)
	return []byte(strings.Replace(string(listPrices), old, replacement, 1))
}

func TestTheListOfTheBinaryIsAFileOfPrices(t *testing.T) {
	t.Parallel()
	p, err := ReadPrices(listPrices)
	require.NoError(t, err)
	assert.Equal(t, listed(t), p)
	text, err := json.Marshal(p) // --print-prices prints the prices in this form
	require.NoError(t, err)
	again, err := ReadPrices(text)
	require.NoError(t, err)
	assert.Equal(t, p, again)
	for name, price := range p.Prices {
		assert.Truef(t, strings.Contains(price.Source, "https://") || price.FromMemory, "%s has neither a page nor the mark from_memory", name)
	}
}

// If a formula named a price that the list lacks, the price would count as 0.
func TestEachPriceOfTheListMovesABill(t *testing.T) {
	t.Parallel()
	l := DefaultLoad()
	l.Users, l.Followers, l.Streams = 1e8, 200, 0.01
	bills := func(p Prices) (all []float64) {
		for _, change := range []func(*Deployment){
			func(*Deployment) {}, func(d *Deployment) { d.Network, d.Endpoint, d.Support = NAT, false, true },
			func(d *Deployment) { d.Billing, d.ReservedWCU, d.ReservedRCU = Provisioned, 1000, 1000 },
		} {
			d := DefaultDeployment()
			change(&d)
			e := New(l, d, p)
			all = append(all, e.Dollars)
		}
		for _, quiet := range []float64{100, 1e6} {
			l := DefaultLoad()
			l.Users, l.Followers = quiet, 10
			d := DefaultDeployment()
			d.Support = true
			e := New(l, d, p)
			all = append(all, e.Dollars, e.Alternatives[0].Dollars)
		}
		return all
	}
	before := bills(listed(t))
	for name, price := range listed(t).Prices {
		p := listed(t)
		p.Prices = maps.Clone(p.Prices)
		price.Value *= 1.5
		p.Prices[name] = price
		assert.NotEqualf(t, before, bills(p), "%s is in no bill", name)
	}
}

func TestAFileOfPricesIsReadStrictly(t *testing.T) {
	t.Parallel()
	const write = `"table_write": {"value": 0.625, "unit": "dollars for a million write units", "date": "2026-08",`
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"no JSON":            {[]byte("prices"), "is not"},
		"an unknown price":   {changed(t, `"prices": {`, `"prices": {"lambda": {"value": 1, "unit": "x", "date": "2026-11", "source": "x"},`), "prices.lambda: there is no such price"},
		"a missing price":    {changed(t, `"table_write"`, `"table_wrote"`), "prices.table_write: is missing"},
		"a price twice":      {changed(t, `"prices": {`, `"prices": {"alarm": {"value": 1, "unit": "x", "date": "2026-11", "source": "x"},`), "prices.alarm"},
		"a member too many":  {changed(t, write, write+` "currency": "EUR",`), "currency"},
		"a member misspelt":  {changed(t, write, strings.Replace(write, "value", "Value", 1)), "Value"},
		"another unit":       {changed(t, write, strings.Replace(write, "a million", "a thousand", 1)), `prices.table_write.unit: "dollars for a thousand write units" must be "dollars for a million write units"`},
		"a negative price":   {changed(t, write, strings.Replace(write, "0.625", "-0.625", 1)), "prices.table_write.value: -0.625 is not from 0 to"},
		"a huge price":       {changed(t, write, strings.Replace(write, "0.625", "1e7", 1)), "prices.table_write.value: 1e+07 is not from 0 to"},
		"an overflow":        {changed(t, write, strings.Replace(write, "0.625", "1e999", 1)), "prices.table_write.value"},
		"no number":          {changed(t, write, strings.Replace(write, "0.625", `"NaN"`, 1)), "prices.table_write.value"},
		"no date":            {changed(t, write, strings.Replace(write, "2026-08", "", 1)), `prices.table_write.date: "" is no month such as 2026-11`},
		"a date of a day":    {changed(t, write, strings.Replace(write, "2026-08", "2026-08-01", 1)), "prices.table_write.date"},
		"month thirteen":     {changed(t, write, strings.Replace(write, "2026-08", "2026-13", 1)), "prices.table_write.date"},
		"no region":          {changed(t, `"us-east-1",`, `"",`), "region: name the region"},
		"a share above 1":    {changed(t, `"support_above": {"value": 0.03`, `"support_above": {"value": 3`), "prices.support_above.value: 3 is a share"},
		"a discount above 1": {changed(t, `"reserved_discount": {"value": 0.54`, `"reserved_discount": {"value": 54`), "prices.reserved_discount.value: 54 is a share"},
		"no source":          {changed(t, `"from memory: gp3"`, `""`), "prices.disk_gb.source: name where the price is from"},
	} {
		_, err := ReadPrices(tt.text)
		assert.ErrorContains(t, err, tt.want, name)
	}
	_, err := ReadPrices(changed(t, write, strings.Replace(write, "0.625", "-1", 1)))
	require.Error(t, err)
	both := strings.Replace(string(changed(t, write, strings.Replace(write, "0.625", "-1", 1))), `"us-east-1"`, `""`, 1)
	_, err = ReadPrices([]byte(both))
	assert.ErrorContains(t, err, "region")
	assert.ErrorContains(t, err, "table_write", "all faults are told at once")
}

// A price is fresh until the end of the same month in the next year.
func TestPricesAreStaleAfterAYear(t *testing.T) {
	t.Parallel()
	p := listed(t)
	p.Prices = map[string]Price{"a": {Date: "2026-03"}, "b": {Date: "2026-11"}}
	assert.Equal(t, "2026-03", p.Oldest())
	for now, want := range map[string]string{
		"2026-11-01T00:00:00Z": "",
		"2027-03-31T23:59:59Z": "",
		"2027-04-01T00:00:00Z": "1 prices are more than a year old, the oldest of 2026-03: give present ones with --prices",
		"2027-12-01T00:00:00Z": "2 prices are more than a year old, the oldest of 2026-03: give present ones with --prices",
		"2026-10-31T23:59:59Z": "the date of b is in the future: mend it in the file of --prices",
	} {
		at, err := time.Parse(time.RFC3339, now)
		require.NoError(t, err)
		assert.Equal(t, want, p.Stale(at), now)
	}
}
