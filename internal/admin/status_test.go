package admin

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
)

// statusOf returns the status of a process, as its client gets it.
func statusOf(t *testing.T, c Config) Status {
	t.Helper()
	server := httptest.NewServer(NewHandler(c))
	t.Cleanup(server.Close)
	s, err := ShowStatus().Do(t.Context(), NewClient(server.Listener.Addr().String(), server.Client()), None{})
	require.NoError(t, err)
	return s
}

// atRest is a pair of which nobody asks more than its status.
type atRest struct {
	Pair
	status pair.Status
}

func (p atRest) PairStatus() pair.Status { return p.status }

func TestTheStatusShowsWhatAnOperatorAsksFirst(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	set := func(name string, value float64, labels ...string) {
		own := prometheus.Labels{}
		for i := 0; i < len(labels); i += 2 {
			own[labels[i]] = labels[i+1]
		}
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, ConstLabels: own, Help: name})
		g.Set(value)
		require.NoError(t, metrics.Register(g))
	}
	for topic, counts := range map[string][4]float64{"likes": {5, 6, 7, 8}, "posts": {1, 2, 3, 4}} {
		for i, state := range []string{"ready", "in_flight", "delayed", "dead"} {
			set("fanfare_queue_depth", counts[i], "topic", topic, "state", state)
		}
	}
	set("process_resident_memory_bytes", 231e6)
	set("fanfare_disk_free_bytes", 9e9, "store", "table")
	set("fanfare_disk_size_bytes", 100e9, "store", "table")
	set("fanfare_disk_nearly_full", 1, "store", "table")
	set("fanfare_archive_lag_seconds", 2.5)
	set("fanfare_archive_lag_bytes", 3e6)
	set("fanfare_archive_base_age_seconds", 90)
	health := NewHealth(Check{Name: "the table", Ask: func(context.Context) error { return errors.New("a secret") }},
		Check{Name: "the clock is in doubt", Warn: true, Ask: func(context.Context) error { return errors.New("another") }})
	about := About{"v1.2.3", []string{"api", "fanout"}, time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	got := statusOf(t, Config{Metrics: metrics, Health: health, Domain: Domain{
		About: about, Pair: atRest{status: pair.Status{Role: "primary", Mode: "paired", Term: 7, Peer: "two:9201", Connected: true}},
	}})
	assert.Equal(t, Status{
		About: about, Health: &healthBody{Status: "not ready", Failing: []string{"the table"}, Warnings: []string{"the clock is in doubt"}},
		Queues:      []QueueState{{"likes", 5, 6, 7, 8}, {"posts", 1, 2, 3, 4}},
		MemoryBytes: 231e6, Disks: []DiskState{{"table", 9e9, 100e9, true}}, Archive: &ArchiveLag{2.5, 3e6, 90},
		Pair: got.Pair,
	}, got)
	assert.Equal(t, strings.Join([]string{
		"version            v1.2.3",
		"roles              api, fanout",
		"since              2026-11-30T09:00:00Z",
		"health             not ready, the table, the clock is in doubt",
		"queue likes        5 ready, 6 in flight, 7 delayed, 8 dead letters",
		"queue posts        1 ready, 2 in flight, 3 delayed, 4 dead letters",
		"memory             231 MB",
		"disk of the table  9.0 of 100.0 GB free, nearly full",
		"archive            2.5s behind (3.0 MB), base 1m30s old",
		"pair               primary, paired, term 7; the other machine, two:9201, is connected",
	}, "\n"), got.text())
}

func TestAProcessWithoutAnArchiveOrAPairShowsNone(t *testing.T) {
	t.Parallel()
	got := statusOf(t, Config{Metrics: prometheus.NewRegistry(), Health: NewHealth(), Domain: Domain{About: About{Version: "v1.2.3"}}})
	assert.Equal(t, Status{About: About{Version: "v1.2.3"}, Health: &healthBody{Status: "ready"}}, got)
}

func TestTheNumbersOfTheStatusAreMetricsOfThePage(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile("status.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/METRICS.md")
	require.NoError(t, err)
	names := regexp.MustCompile(`"(fanfare_\w+)"`).FindAllStringSubmatch(string(code), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.Contains(t, string(page), "| `"+name[1]+"` | gauge |")
	}
}
