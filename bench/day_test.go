package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	dayShown = flag.String("day", "minutes", "`part` of the day to let pass: minutes, evening or all")
	dayFile  = flag.String("day-json", "", "write the report of the day to this `file`")
)

// The test passes a day of 10 million users on a scaled table, in virtual time. The API, the workers and
// the aggregators of the product run on demand, and with provisioned capacity that follows the load.
// Although the table refuses calls, each home and each count is exact at the end.
func TestADayOfANetworkOnBothBillingModes(t *testing.T) {
	const evening = 19 * time.Hour // the spike coincides with the peak of the day
	shape, known := map[string]dayShape{
		"minutes": {scale: 1000, users: 400, begins: evening, before: time.Minute, lasts: 5 * time.Minute, spike: evening},
		"evening": {scale: 100, users: 10_000, begins: evening, before: 5 * time.Minute, lasts: time.Hour, spike: evening + 10*time.Minute},
		"all":     {scale: 1000, users: 10_000, before: 20 * time.Minute, lasts: oneDay, spike: 13*time.Hour + 12*time.Minute},
	}[*dayShown]
	require.True(t, known, "there is no part %q of a day", *dayShown)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the race detector is confused by two timers of a bubble at once
	report := Report{Machine: thisMachine(".")}
	for _, mode := range []string{provisioned, onDemand} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { report.Results = append(report.Results, passDay(t, shape, mode)...) })
		})
	}
	require.NoError(t, report.WriteTable(t.Output()))
	for _, r := range report.Results {
		assert.Truef(t, r.Met == nil || *r.Met, "%s: %v %s, want %s", r.Name, r.Value, r.Unit, r.Target)
	}
	if *dayFile != "" {
		file, err := os.Create(*dayFile)
		require.NoError(t, err)
		require.NoError(t, report.WriteJSON(file))
		require.NoError(t, file.Close())
	}
}

// passDay lets a day pass, and returns its measurements.
func passDay(t *testing.T, shape dayShape, mode string) []Result {
	t.Helper()
	d := newNetworkDay(t, shape)
	stop := d.work()
	defer func() { assert.NoError(t, stop()) }()
	for range shape.users / 8 { // then homes have several pages
		d.post()
		<-time.After(dayStep)
	}
	d.settle()
	b := newBilled(d.table, shape.scale)
	d.pass(shape.begins-shape.before, shape.before, func(int) {})
	b.limit(mode, busiest/shape.traffic(shape.begins-shape.before/2))
	d.measureAgain()
	d.pass(shape.begins, shape.lasts, b.minute)
	rows := b.results(mode)
	emptied := d.settle()
	homes, counts := d.compare()
	rows = append(rows,
		Result{Name: "calls answered 503", Value: 100 * float64(d.unavailable) / float64(d.asked), Unit: "%", Note: fmt.Sprintf("%d of %d; %d likes came before a worker had written the post", d.unavailable, d.asked, d.tooSoon)}.reported(),
		delayed("p99 from a post to its last entry", d.postDelay), delayed("p99 from a like to its count", d.lag),
		Result{Name: "homes that differ from the answered calls", Value: float64(homes), Unit: "homes",
			Note: fmt.Sprintf("%d users, %d posts; %s of a day; the queues were empty %s after the last call", shape.users, len(d.made), shape.lasts, emptied),
		}.reach("0", homes == 0),
		Result{Name: "like counts that differ", Value: float64(counts), Unit: "counts"}.reach("0", counts == 0),
	)
	for i := range rows {
		rows[i].ID, rows[i].Name = "day", mode+": "+rows[i].Name
	}
	return rows
}

// delayed returns the row of a histogram in milliseconds.
func delayed(what string, h *hdrhistogram.Histogram) Result {
	ms := func(quantile float64) float64 { return float64(h.ValueAtQuantile(quantile)) }
	return Result{
		Name: what, Value: ms(99) / 1000, Unit: "s",
		Latency: &Latency{P50: ms(50), P90: ms(90), P99: ms(99), Max: float64(h.Max()), Count: h.TotalCount()},
	}.reported()
}
