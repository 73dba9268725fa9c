package replay

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The metrics that a replay reads at the admin addresses.
const (
	startMetric = "process_start_time_seconds"
	unitsMetric = "fanfare_table_capacity_units_total" // the labels are flow, op and kind
	skipMetric  = "fanfare_deliveries_skipped_total"
	depthMetric = "fanfare_queue_depth" // the labels are topic and state
	flowFanout  = "fanout"
	flowLikes   = "likes"
	topics      = 5 // a process omits a topic whose queue does not answer
)

// metrics reads the metrics of all processes at their admin addresses.
type metrics struct {
	addrs []string
	http  *http.Client
}

func newMetrics(addrs []string) *metrics {
	return &metrics{addrs: addrs, http: &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}}
}

func (m *metrics) close() { m.http.CloseIdleConnections() }

// Probe returns nil if a process answers at an admin address.
func Probe(ctx context.Context, addr string) error {
	m := newMetrics(nil)
	defer m.close()
	if _, err := m.scrape(ctx, addr); err != nil {
		return fmt.Errorf("admin address %s: %w", addr, err)
	}
	return nil
}

// reading holds the metrics of all addresses at one time. If an address has not answered, its map is nil.
type reading []map[string]*dto.MetricFamily

func (m *metrics) read(ctx context.Context) reading {
	all := make(reading, len(m.addrs))
	for i, addr := range m.addrs {
		families, err := m.scrape(ctx, addr)
		if err != nil {
			continue // a restarting process: depth and since return false
		}
		all[i] = families
	}
	return all
}

const maxMetrics = 16 << 20

func (m *metrics) scrape(ctx context.Context, addr string) (map[string]*dto.MetricFamily, error) {
	url := addr
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain")
	resp, err := m.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics answered %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(resp.Body, maxMetrics))
}

// depth returns the number of messages that are ready, delayed or in flight. Every process
// reports the same queues, so depth uses the largest number of each queue. ok is false if
// an address has not answered, or if no process has reported a certain queue.
//
// Only ready messages of the backfills count. Homes are exact without backfills, and
// messages about deletions wait in the topic for minutes: delayed or, on SQS, in flight.
// The canary deletes a post every 10 seconds.
func (r reading) depth() (float64, bool) {
	return r.messages(func(topic, state string) bool {
		return state == "ready" || topic != "backfills" && state != "dead"
	})
}

func (r reading) dead() float64 {
	dead, _ := r.messages(func(_, state string) bool { return state == "dead" })
	return dead
}

func (r reading) messages(count func(topic, state string) bool) (sum float64, told bool) {
	largest := map[string]float64{}
	seen := map[string]bool{}
	for _, families := range r {
		if families == nil {
			return 0, false
		}
		for _, metric := range families[depthMetric].GetMetric() {
			if labels := labelsOf(metric); count(labels["topic"], labels["state"]) {
				key := labels["topic"] + "/" + labels["state"]
				seen[labels["topic"]] = true
				largest[key] = max(largest[key], metric.GetGauge().GetValue())
			}
		}
	}
	for _, n := range largest {
		sum += n
	}
	return sum, len(seen) == topics
}

// skips is the key in units for the number of deliveries that were skipped.
var skips = [2]string{"", "skipped"} //nolint:gochecknoglobals // a name that does not change

// units has capacity units by flow and kind ("read", "write"), and the number of skips.
type units map[[2]string]float64

// since returns the units used since before, an earlier reading. It returns false if a
// process has not answered, or has restarted since and so lost its counters.
func (r reading) since(before reading) (units, bool) {
	used := units{}
	for i, families := range r {
		if families == nil || before[i] == nil || startOf(families) != startOf(before[i]) {
			return nil, false
		}
		earlier := unitsOf(before[i])
		for key, now := range unitsOf(families) {
			if now < earlier[key] {
				return nil, false
			}
			used[key] += now - earlier[key]
		}
	}
	return used, len(r) > 0
}

// startOf returns the start time of a process in seconds, 0 if it is unknown.
func startOf(families map[string]*dto.MetricFamily) float64 {
	for _, metric := range families[startMetric].GetMetric() {
		return metric.GetGauge().GetValue()
	}
	return 0
}

func unitsOf(families map[string]*dto.MetricFamily) units {
	sum := units{}
	for _, metric := range families[unitsMetric].GetMetric() {
		labels := labelsOf(metric)
		sum[[2]string{labels["flow"], labels["kind"]}] += metric.GetCounter().GetValue()
	}
	for _, metric := range families[skipMetric].GetMetric() {
		sum[skips] += metric.GetCounter().GetValue()
	}
	return sum
}

// byFlow returns the units of a kind, by flow.
func (u units) byFlow(kind string) map[string]float64 {
	flows := map[string]float64{}
	for key, n := range u {
		if key[1] == kind {
			flows[key[0]] = round(n)
		}
	}
	return flows
}

// writes returns the write units of a flow. If flow is "", it returns the write units of all flows.
func (u units) writes(flow string) float64 { return u.sum(flow, "write") }

func (u units) reads() float64 { return u.sum("", "read") }

func (u units) sum(flow, kind string) float64 {
	sum := 0.0
	for key, n := range u {
		if key[1] == kind && (flow == "" || key[0] == flow) {
			sum += n
		}
	}
	return round(sum)
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := make(map[string]string, len(metric.GetLabel()))
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}
