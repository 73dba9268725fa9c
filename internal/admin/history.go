package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// historyEvery is the time between two looks of a History, and historyLooks the number of looks that it keeps: an hour.
	historyEvery = 10 * time.Second
	historyLooks = 360
	// historySeries bounds the series of a look (I9). With the number of looks it bounds the memory, which is 360 × 256 × 8 bytes, some 740 kB.
	historySeries = 256
)

// History keeps the metrics of the charts for an hour, in memory, so that a page that is opened now shows the past hour.
type History struct {
	from prometheus.Gatherer
	// charted are the names of the kept metrics.
	charted []string

	mu    sync.Mutex
	names []string       // of the series, in the order of their first look
	place map[string]int // the index of a series in names
	looks []Look         // the oldest first
}

// Look is the value of each series at a time. Series that were unknown at that time are missing at the end.
type Look struct {
	At     int64   `json:"at"` // in milliseconds
	Values []Value `json:"values"`
}

// Value is a number, or null if the process could not read the number at that time.
type Value float64

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// Hour has the values of a History. Series are names as in /metrics, without the labels that no chart needs.
type Hour struct {
	Series []string `json:"series"`
	Looks  []Look   `json:"looks"`
}

// NewHistory returns a History of the metrics with the names in charted. Run fills it.
func NewHistory(from prometheus.Gatherer, charted []string) *History {
	return &History{from: from, charted: charted, place: make(map[string]int)}
}

// Run looks at the metrics until ctx ends.
func (h *History) Run(ctx context.Context) error {
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	for {
		h.look(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look adds the present values. Metrics that cannot be read at the moment are missing.
func (h *History) look(now time.Time) {
	sums := make(map[string]float64)
	var order []string
	add := func(series string, value float64) {
		if _, known := sums[series]; !known {
			order = append(order, series)
		}
		sums[series] += value
	}
	families, _ := h.from.Gather() // the rest is there even if one collector failed, and /readyz names the failure
	for _, family := range families {
		name := family.GetName()
		if !slices.Contains(h.charted, name) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() == "topic" || l.GetName() == "state" {
					labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
			}
			if buckets := m.GetHistogram(); buckets != nil {
				for _, b := range buckets.GetBucket() {
					add(series(name+"_bucket", append(labels[:len(labels):len(labels)], fmt.Sprintf("le=%q", fmt.Sprint(b.GetUpperBound())))), float64(b.GetCumulativeCount()))
				}
				add(series(name+"_bucket", append(labels[:len(labels):len(labels)], `le="+Inf"`)), float64(buckets.GetSampleCount()))
				continue
			}
			add(series(name, labels), m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	h.keep(now, order, sums)
}

func series(name string, labels []string) string {
	if len(labels) == 0 {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

// keep adds a look, and drops the looks that are too old.
func (h *History) keep(now time.Time, order []string, values map[string]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range order {
		if _, known := h.place[name]; !known && len(h.names) < historySeries {
			h.place[name] = len(h.names)
			h.names = append(h.names, name)
		}
	}
	look := Look{At: now.UnixMilli(), Values: make([]Value, len(h.names))}
	for i, name := range h.names {
		value, there := values[name]
		if !there {
			value = math.NaN()
		}
		look.Values[i] = Value(value)
	}
	if len(h.looks) == historyLooks {
		copy(h.looks, h.looks[1:])
		h.looks = h.looks[:historyLooks-1]
	}
	h.looks = append(h.looks, look)
}

// Hour returns the looks of the past hour.
func (h *History) Hour() Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Hour{slices.Clone(h.names), slices.Clone(h.looks)}
}

// ShowHistory returns the metrics of the past hour, for the charts.
func ShowHistory() Op[None, Hour] {
	return Op[None, Hour]{
		Route: "GET /admin/history", Has: func(d Domain) bool { return d.History != nil },
		Run: func(_ context.Context, d Domain, _ None) (Hour, error) { return d.History.Hour(), nil },
	}
}
