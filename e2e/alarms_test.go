package e2e

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
)

// lateAlarm returns the alarm of the stack for late messages of a topic, and its threshold.
func lateAlarm(t *testing.T, topic string) (alarm map[string]any, threshold float64) {
	t.Helper()
	resources := stack(t, "services.yaml", map[string]string{"QueuePrefix": "q"})
	alarm = at(t, resources, strings.ToUpper(topic[:1])+topic[1:]+"Late", "Properties").(map[string]any)
	threshold, err := strconv.ParseFloat(fmt.Sprint(alarm["Threshold"]), 64)
	require.NoError(t, err)
	assert.Equal(t, "GreaterThanThreshold", alarm["ComparisonOperator"], topic)
	return alarm, threshold
}

// metric returns a metric of an alarm in one line.
func metric(t *testing.T, of any) string {
	t.Helper()
	m := at(t, of, "MetricStat", "Metric")
	assert.Equal(t, "60", at(t, of, "MetricStat", "Period"))
	return fmt.Sprint(at(t, of, "Id"), " ", at(t, m, "MetricName"), " ", at(t, of, "MetricStat", "Stat"), " ", at(t, m, "Dimensions", 0, "Value"))
}

// ApproximateAgeOfOldestMessage leaves out a message after its third receive, and begins at 0 with
// each copy of a message that waits: no alarm may rely on it.
func TestTheAlarmsForLateMessagesSeeMessagesThatAlwaysFail(t *testing.T) {
	t.Parallel()
	for _, topic := range queue.Topics() {
		alarm, threshold := lateAlarm(t, topic)
		want := []string{"v ApproximateNumberOfMessagesVisible Maximum q-" + topic}
		if topic != queue.TopicBackfills { // whose messages are delayed by design
			want = append(want, "y ApproximateNumberOfMessagesDelayed Maximum q-"+topic)
		}
		want = append(want, "d NumberOfMessagesDeleted Sum q-"+topic)
		for i, line := range want {
			assert.Equal(t, line, metric(t, at(t, alarm, "Metrics", i)))
		}
		expression := fmt.Sprint(at(t, alarm, "Metrics", len(want), "Expression"))
		for name, c := range map[string]struct {
			visible, delayed, deleted int // in a minute
			late                      bool
		}{
			"idle":                                                     {0, 0, 0, false},
			"one message is met by a look":                             {1, 0, 1, false},
			"busy: a fifth of a second of work":                        {20, 0, 6000, false},
			"a crowd, less than four minutes of work":                  {19_000, 0, 5000, false},
			"more than the workers take, six minutes of work":          {30_000, 0, 5000, true},
			"one message, and no worker takes it":                      {1, 0, 0, true},
			"one of many messages fails":                               {20, 1, 6000, false},
			"the only message fails":                                   {0, 1, 0, topic != queue.TopicBackfills},
			"all messages fail: each has a copy in five minutes":       {0, 1000, 200, topic != queue.TopicBackfills},
			"a few hundred messages fail: each has a copy in a minute": {0, 300, 300, false},
		} {
			got, _ := constant.Float64Val(constant.ToFloat(arithmetic(t, expression, map[string]int{"v": c.visible, "y": c.delayed, "d": c.deleted})))
			assert.Equal(t, c.late, got > threshold, "%s: %s: %v seconds", topic, name, got)
		}
	}
}

// SQS delivers nothing of a queue with some 120,000 messages in flight.
func TestTheAlarmForMessagesInFlightIsBelowTheQuota(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		metric    string
		threshold int
	}{
		"MessagesInFlight": {"ApproximateNumberOfMessagesNotVisible", 80_000},
		"MessagesDelayed":  {"ApproximateNumberOfMessagesDelayed", 100_000},
	} {
		resources := stack(t, "services.yaml", map[string]string{"QueuePrefix": "q"})
		alarm := at(t, resources, name, "Properties")
		for i, topic := range queue.Topics() {
			assert.Equal(t, fmt.Sprintf("%s %s Maximum q-%s", topic, c.metric, topic), metric(t, at(t, alarm, "Metrics", i)))
		}
		assert.Equal(t, "MAX([posts, backfills, chunks, likes])", at(t, alarm, "Metrics", len(queue.Topics()), "Expression"))
		assert.Equal(t, fmt.Sprint(c.threshold), fmt.Sprint(at(t, alarm, "Threshold")))
	}
}

// arithmetic returns the value of an expression with these values of its names.
func arithmetic(t *testing.T, expression string, values map[string]int) constant.Value {
	t.Helper()
	numbers := regexp.MustCompile(`[a-z]+`).ReplaceAllStringFunc(expression, func(name string) string {
		require.Contains(t, values, name)
		return fmt.Sprintf("%d.0", values[name])
	})
	result, err := types.Eval(token.NewFileSet(), nil, token.NoPos, numbers)
	require.NoError(t, err, numbers)
	return result.Value
}
