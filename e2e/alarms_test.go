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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/messages"
)

// longestWaits are the longest waits by design of the messages of each topic
// (docs/decisions/0040).
func longestWaits() map[string]time.Duration {
	const deletion, removalOfAUser = messages.MaxAhead + time.Minute, time.Hour
	return map[string]time.Duration{queue.TopicPosts: 0, queue.TopicBackfills: max(deletion, removalOfAUser), queue.TopicChunks: 0, queue.TopicLikes: 0}
}

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

// ApproximateAgeOfOldestMessage counts from the send, and hidden messages count.
func TestNoAlarmOnTheAgeOfMessagesIsBelowAWaitByDesign(t *testing.T) {
	t.Parallel()
	for topic, wait := range longestWaits() {
		alarm, threshold := lateAlarm(t, topic)
		if alarm["MetricName"] == "ApproximateAgeOfOldestMessage" {
			assert.Greaterf(t, threshold, wait.Seconds(), "a sound queue of %s raises its alarm", topic)
		}
	}
}

// A message that waits by design is hidden and not visible, so it is not in the backlog.
func TestTheAlarmForLateBackfillsIsSilentOnASoundQueue(t *testing.T) {
	t.Parallel()
	alarm, threshold := lateAlarm(t, queue.TopicBackfills)
	for i, want := range []string{"v ApproximateNumberOfMessagesVisible Maximum q-backfills", "d NumberOfMessagesDeleted Sum q-backfills"} {
		of := at(t, alarm, "Metrics", i)
		metric := at(t, of, "MetricStat", "Metric")
		assert.Equal(t, "60", at(t, of, "MetricStat", "Period"))
		assert.Equal(t, want, fmt.Sprint(at(t, of, "Id"), " ", at(t, metric, "MetricName"), " ", at(t, of, "MetricStat", "Stat"), " ", at(t, metric, "Dimensions", 0, "Value")))
	}
	expression := fmt.Sprint(at(t, alarm, "Metrics", 2, "Expression"))
	for name, c := range map[string]struct {
		visible, deleted int // in a minute
		seconds          float64
		late             bool
	}{
		"idle": {0, 0, 0, false},
		"a post is deleted every 10 seconds: 36 messages are hidden":              {0, 6, 0, false},
		"a look meets the one message of a minute":                                {1, 1, 55, false},
		"busy: a fifth of a second of work":                                       {20, 6000, 0.2, false},
		"a crowd of new followers, four minutes of work":                          {20_000, 5000, 240, false},
		"more new followers than the workers take, six minutes of work":           {30_000, 5000, 360, true},
		"one message, and no worker takes it":                                     {1, 0, 600, true},
		"no worker is left, and deletions of ten minutes ago have become visible": {24, 0, 14_400, true},
	} {
		got, _ := constant.Float64Val(constant.ToFloat(arithmetic(t, expression, map[string]int{"v": c.visible, "d": c.deleted})))
		assert.InDelta(t, c.seconds, got, 0.01*c.seconds, name)
		assert.Equal(t, c.late, got > threshold, name)
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
