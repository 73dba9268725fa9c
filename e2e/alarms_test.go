package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
)

// metricsOf returns the metrics of a situation, from its recording.
func metricsOf(t *testing.T, c situation, recordings map[string]series) series {
	t.Helper()
	name := c.name
	if c.loads == nil {
		name = calm
	}
	require.Contains(t, recordings, name, "record it: go test -C e2e . -run TestTheAlarmsOfTheStackFire -record -update")
	s := recordings[name].clone()
	for _, service := range []string{"api", "fanout", "likeagg"} {
		s.write(tasksOf(service), 6, 0, lasts)
	}
	for _, ofTargets := range []bool{true, false} {
		s.write(ofBalancer("RequestCount", "Sum", ofTargets), 600, 0, lasts)
	}
	s.write(ofBalancer("UnHealthyHostCount", "Maximum", true), 0, 0, lasts)
	s.write(ofBalancer("TargetResponseTime", "p99", true), 0.05, 0, lasts)
	if c.more != nil {
		c.more(s)
	}
	return s
}

// alarmsOfECS returns all alarms of a deployment on ECS.
func alarmsOfECS(t *testing.T) map[string]alarm {
	t.Helper()
	all := alarms(t, map[string]string{
		"TableName": "feeds", "QueuePrefix": "q", "ServicesStack": "test",
		"LoadBalancer": "arn:aws:elasticloadbalancing:eu-central-1:1:loadbalancer/app/feed/1", "TargetGroup": "arn:aws:elasticloadbalancing:eu-central-1:1:targetgroup/feed/2",
	})
	require.Len(t, slices.Collect(maps.Keys(all)), 39)
	return all
}

// Situations without a fault raise no alarm. Each fault raises exactly its alarms, even if the metrics
// are up to two minutes late. When the fault has ended, the alarms end.
func TestTheAlarmsOfTheStackFireWhenAndOnlyWhenSomethingIsWrong(t *testing.T) {
	all := alarmsOfECS(t)
	raised := map[string]bool{}
	situations := append(healthy(), alarming()...)
	recordings := recordingsOf(t, situations)
	var table []string
	for _, c := range situations {
		s := metricsOf(t, c, recordings)
		first := map[string][]int{}
		for late := range latest + 1 {
			for name, a := range all {
				on := a.watch(s, lasts, late)
				if len(on) == 0 {
					continue
				}
				raised[kindOf(name)] = true
				first[name] = append(first[name], on[0]+1-faultBegins)
				assert.Equal(t, slices.Contains(c.stays, name), on[len(on)-1] == lasts-1, "%s: %s at the end", c.name, name)
			}
		}
		assert.ElementsMatch(t, c.want, slices.Collect(maps.Keys(first)), c.name)
		table = append(table, row(c.name, first))
		for name, minutes := range first {
			assert.Len(t, minutes, latest+1, "%s: %s depends on how late the metrics are", c.name, name)
			assert.Positive(t, slices.Min(minutes), "%s: %s", c.name, name)
		}
		t.Log(table[len(table)-1])
	}
	for name := range all {
		assert.Contains(t, raised, kindOf(name), "no situation raises %s or an alarm like it", name)
	}
	page, err := os.ReadFile("../docs/DEPLOY.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "| situation | alarms, and their minutes |\n|---|---|\n")
	inPage, _, _ := strings.Cut(rest, "\n\n")
	assert.Equal(t, strings.Join(table, "\n"), inPage, "the table of docs/DEPLOY.md")
}

// kindOf returns the name of an alarm without its queue, its daemon, or its kind of calls.
func kindOf(name string) string {
	return regexp.MustCompile(`^(Posts|Backfills|Chunks|Likes|Notices|Reads|Writes)|(Api|Fanout|Likeagg)$`).ReplaceAllString(name, "")
}

// row returns the row of a situation in docs/DEPLOY.md: the alarms, with the minutes until each alarm
// fires.
func row(name string, first map[string][]int) string {
	var cells []string
	for _, alarm := range slices.Sorted(maps.Keys(first)) {
		cells = append(cells, fmt.Sprintf("`%s` %d–%d", alarm, slices.Min(first[alarm]), slices.Max(first[alarm])))
	}
	if len(cells) == 0 {
		cells = []string{"–"}
	}
	return fmt.Sprintf("| %s | %s |", name, strings.Join(cells, ", "))
}

// The alarms of the five queues are alike, so one situation of each kind is enough.
func TestTheAlarmsOfAllQueuesAreAlike(t *testing.T) {
	t.Parallel()
	resources := stack(t, "alarms.yaml", map[string]string{"QueuePrefix": "q", "ServicesStack": "test"})
	for _, kind := range []string{"DeadLetters", "Stuck", "Late", "Fail"} {
		want := fmt.Sprint(resources["Posts"+kind])
		for _, topic := range queue.Topics() {
			got := fmt.Sprint(resources[strings.ToUpper(topic[:1])+topic[1:]+kind])
			assert.Equal(t, want, strings.ReplaceAll(got, topic, "posts"), topic+kind)
		}
	}
}

// FILL inserts a value for a minute whose metric is late. An alarm with FILL that needs all of its
// minutes would never fire, or always.
func TestNoAlarmWithFillWantsAllOfItsMinutes(t *testing.T) {
	t.Parallel()
	for name, a := range alarmsOfECS(t) {
		if a.hasFill() {
			assert.LessOrEqual(t, a.least, a.periods-latest, name)
			assert.Positive(t, a.least, name)
		}
	}
}

// On Kubernetes the table and the queues have their alarms, although no stack of daemons exports its
// resources.
func TestTheAlarmsDoWithoutTheStackOfTheDaemons(t *testing.T) {
	t.Parallel()
	all := alarms(t, map[string]string{"TableName": "feeds"})
	assert.Contains(t, all, "PostsStuck")
	assert.Contains(t, all, "WritesOverAccount")
	for name, a := range all {
		for _, metric := range a.metrics {
			assert.NotRegexp(t, "^(AWS/ECS|AWS/ApplicationELB|Fanfare)", metric, name)
		}
	}
	template := read(t, "alarms.yaml", map[string]string{"LoadBalancer": "arn:aws:elasticloadbalancing:eu-central-1:1:loadbalancer/app/feed/1"})
	assert.ErrorContains(t, template.refusal(), "BalancerHasTargets")
}

// Each alarm names the section of a page that has the remedy.
func TestEachAlarmNamesItsRunbook(t *testing.T) {
	t.Parallel()
	for name, a := range alarmsOfECS(t) {
		at := regexp.MustCompile(`\((docs/\w+\.md), ([^)]+)\)$`).FindStringSubmatch(a.description)
		require.Len(t, at, 3, "%s: %s", name, a.description)
		page, err := os.ReadFile("../" + at[1])
		require.NoError(t, err)
		assert.True(t, regexp.MustCompile(`(?m)^(##+ |\| )`+regexp.QuoteMeta(at[2])+`( \||$)`).Match(page), "%s: %s has no section %s", name, at[1], at[2])
	}
}

// Each metric of the dashboard is a metric of an alarm, or the used capacity.
func TestTheDashboardShowsTheMetricsOfTheAlarms(t *testing.T) {
	t.Parallel()
	resources := stack(t, "alarms.yaml", map[string]string{"TableName": "feeds", "QueuePrefix": "q"})
	var body struct {
		Widgets []struct {
			Properties struct {
				Stat    string // of each metric without its own Stat
				Metrics [][]any
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(at(t, resources, "Dashboard", "Properties", "DashboardBody").(string)), &body))
	known := map[string]bool{}
	for _, a := range alarmsOfECS(t) {
		for _, metric := range a.metrics {
			known[metric] = true
		}
	}
	shown := 0
	for _, widget := range body.Widgets {
		for i, m := range widget.Properties.Metrics {
			for k, part := range m[:min(i*len(m), 3)] { // a dot repeats the part of the metric above
				if part == "." {
					m[k] = widget.Properties.Metrics[i-1][k]
				}
			}
			var dimensions []string
			for i := 2; i < len(m)-1; i += 2 {
				dimensions = append(dimensions, fmt.Sprint(m[i], "=", m[i+1]))
			}
			stat := widget.Properties.Stat
			if own, ok := m[len(m)-1].(map[string]any)["stat"]; ok {
				stat = fmt.Sprint(own)
			}
			name := metricName(fmt.Sprint(m[0]), fmt.Sprint(m[1]), stat, dimensions...)
			assert.True(t, known[name] || strings.Contains(name, "Consumed"), name)
			shown++
		}
	}
	assert.Equal(t, 5*5+4+2*8, shown)
}
