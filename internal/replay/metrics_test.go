package replay

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// told parses what each process said, nil for one that did not answer.
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
		if err != nil {
			t.Fatal(err)
		}
		r = append(r, families)
	}
	return r
}

func TestDepthIsCountedOnceForAllProcesses(t *testing.T) {
	queues := func(states ...string) string {
		text := "# TYPE fanfare_queue_depth gauge\n"
		for _, topic := range []string{"posts", "chunks", "likes"} {
			text += `fanfare_queue_depth{topic="` + topic + `",state="ready"} 0` + "\n"
		}
		for _, state := range states {
			text += "fanfare_queue_depth{" + state + "\n"
		}
		return text
	}
	for name, tt := range map[string]struct {
		r    reading
		want float64
		ok   bool
	}{
		"one queue, two processes": {told(t, queues(`topic="posts",state="delayed"} 3`), queues(`topic="posts",state="delayed"} 4`)), 4, true},
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

func TestUnitsAreSummedOverProcessesAndRestarts(t *testing.T) {
	units := func(flow, kind, n string) string {
		return `fanfare_table_capacity_units_total{flow="` + flow + `",op="x",kind="` + kind + `"} ` + n
	}
	before := told(t, "# TYPE fanfare_table_capacity_units_total counter\n"+units("likes", "write", "10"), "# TYPE fanfare_table_capacity_units_total counter\n"+units("likes", "write", "100"))
	after := told(t, "# TYPE fanfare_table_capacity_units_total counter\n"+units("likes", "write", "15")+"\n"+units("api", "write", "2")+"\n"+units("api", "read", "1.5"),
		"# TYPE fanfare_table_capacity_units_total counter\n"+units("likes", "write", "7"))
	used, ok := after.since(before)
	if !ok || used.writes("likes") != 5+7 || used.writes("") != 14 || used.reads() != 1.5 {
		t.Errorf("used %v, %v", used, ok)
	}
	if _, ok := told(t, "up 1", "").since(before); ok {
		t.Error("units are known of a process that did not answer")
	}
	if _, ok := (reading{}).since(reading{}); ok {
		t.Error("units are known of no process")
	}
}
