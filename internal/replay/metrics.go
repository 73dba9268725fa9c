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

// What the processes tell on their admin addresses.
const (
	startMetric = "process_start_time_seconds"
	unitsMetric = "fanfare_table_capacity_units_total" // flow, op, kind
	depthMetric = "fanfare_queue_depth"                // topic, state
	flowFanout  = "fanout"
	flowLikes   = "likes"
	topics      = 3 // a topic that does not answer its process is left out
)

// metrics reads the admin addresses of the processes.
type metrics struct {
	addrs []string
	http  *http.Client
}

func newMetrics(addrs []string) *metrics {
	return &metrics{addrs: addrs, http: &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}}
}

func (m *metrics) close() { m.http.CloseIdleConnections() }

// Probe says whether a process answers at an admin address.
func Probe(ctx context.Context, addr string) error {
	m := newMetrics(nil)
	defer m.close()
	if _, err := m.scrape(ctx, addr); err != nil {
		return fmt.Errorf("admin address %s: %w", addr, err)
	}
	return nil
}

// reading is what all addresses said at one time. An address that did not answer has
// a nil family map.
type reading []map[string]*dto.MetricFamily

func (m *metrics) read(ctx context.Context) reading {
	all := make(reading, len(m.addrs))
	for i, addr := range m.addrs {
		families, err := m.scrape(ctx, addr)
		if err != nil {
			continue // a process that is restarting; depth and since say that it is unknown
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
		return nil, fmt.Errorf("/metrics answers %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(resp.Body, maxMetrics))
}

// depth returns how many messages are ready, delayed or in flight. Every process
// tells of the same queues, so of each the largest number counts. Not ok: an address
// did not answer, or nobody told of some queue.
func (r reading) depth() (float64, bool) {
	depth, told := r.messages(func(state string) bool { return state != "dead" })
	return depth, told
}

func (r reading) dead() float64 {
	dead, _ := r.messages(func(state string) bool { return state == "dead" })
	return dead
}

func (r reading) messages(count func(state string) bool) (sum float64, told bool) {
	largest := map[string]float64{}
	seen := map[string]bool{}
	for _, families := range r {
		if families == nil {
			return 0, false
		}
		for _, metric := range families[depthMetric].GetMetric() {
			if labels := labelsOf(metric); count(labels["state"]) {
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

// units are capacity units by flow and kind ("read", "write").
type units map[[2]string]float64

// since returns the units used after an earlier reading. They are not known if a
// process did not answer, or started again meanwhile: what it had used is lost then.
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

// startOf is when a process started, in seconds; 0 where it cannot tell.
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
	return sum
}

// writes returns the write units of a flow, or of all for "".
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
