package replay

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told parses the metrics of each process. The text of a process that has not answered is "".
func told(t *testing.T, texts ...string) reading {
	t.Helper()
	var r reading
	for _, text := range texts {
		if text == "" {
			r = append(r, nil)
			continue
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text + "\n"))
		require.NoError(t, err)
		r = append(r, families)
	}
	return r
}

func TestDepthIsCountedOnceForAllProcesses(t *testing.T) {
	t.Parallel()
	queues := func(states ...string) string {
		var text strings.Builder
		text.WriteString("# TYPE fanfare_queue_depth gauge\n")
		for _, topic := range []string{"posts", "backfills", "chunks", "likes", "notices"} {
			text.WriteString(`fanfare_queue_depth{topic="` + topic + `",state="ready"} 0` + "\n")
		}
		for _, state := range states {
			text.WriteString("fanfare_queue_depth{" + state + "\n")
		}
		return text.String()
	}
	for name, tt := range map[string]struct {
		r    reading
		want float64
		ok   bool
	}{
		"one queue, two processes": {told(t, queues(`topic="posts",state="delayed"} 3`), queues(`topic="posts",state="delayed"} 4`)), 4, true},
		"backfills for later":      {told(t, queues(`topic="backfills",state="delayed"} 7`, `topic="backfills",state="in_flight"} 3`, `topic="backfills",state="ready"} 1`)), 1, true},
		"two queues, three states": {told(t, queues(`topic="posts",state="in_flight"} 1`, `topic="likes",state="delayed"} 2`, `topic="likes",state="dead"} 9`)), 3, true},
		"a process did not answer": {told(t, queues(), ""), 0, false},
		"a queue did not answer":   {told(t, strings.Replace(queues(), "fanfare_queue_depth{topic=\"chunks\"", "other{topic=\"chunks\"", 1)), 0, false},
		"nobody tells of queues":   {told(t, "up 1"), 0, false},
		"nobody asked":             {nil, 0, false},
	} {
		if got, ok := tt.r.depth(); got != tt.want || ok != tt.ok {
			t.Errorf("%s: depth %v, %v; want %v, %v", name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestUnitsAreSummedOverProcesses(t *testing.T) {
	t.Parallel()
	process := func(start string, counters ...string) string {
		return "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds " + start +
			"\n# TYPE fanfare_table_capacity_units_total counter\n" + strings.Join(counters, "\n")
	}
	units := func(flow, kind, n string) string {
		return `fanfare_table_capacity_units_total{flow="` + flow + `",op="x",kind="` + kind + `"} ` + n
	}
	before := told(t, process("100", units("likes", "write", "10")), process("200", units("likes", "write", "100")))
	after := told(t, process("100", units("likes", "write", "15"), units("api", "write", "2"), units("api", "read", "1.5")),
		process("200", units("likes", "write", "107"), "# TYPE fanfare_deliveries_skipped_total counter\nfanfare_deliveries_skipped_total 7"))
	used, ok := after.since(before)
	if !ok || used.writes("likes") != 5+7 || used.writes("") != 14 || used.reads() != 1.5 {
		t.Errorf("used %v, %v", used, ok)
	}
	assert.Equal(t, map[string]float64{"likes": 12, "api": 2}, used.byFlow("write"))
	assert.Equal(t, map[string]float64{"api": 1.5}, used.byFlow("read"))
	assert.Equal(t, 7.0, used[skips])
	for name, again := range map[string]string{
		"started again":                     process("300", units("likes", "write", "107")),
		"started again, does not tell when": process("200", units("likes", "write", "7")),
	} {
		if used, ok := told(t, process("100", units("likes", "write", "15")), again).since(before); ok {
			t.Errorf("a process %s: used %v, want that it is not known", name, used)
		}
	}
	_, ok = told(t, "up 1", "").since(before)
	assert.False(t, ok, "units are known of a process that did not answer")
	_, ok = (reading{}).since(reading{})
	assert.False(t, ok, "units are known of no process")
}
