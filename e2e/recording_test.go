package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fanfare/internal/id"
	"fanfare/internal/obs"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
	"fanfare/messages"
)

// The recordings are data files, because a recording takes minutes. make test-platform writes the files.
var (
	recordNow = flag.Bool("record", false, "record the metrics of the alarms' situations, and look at those")
	writeNow  = flag.Bool("update", false, "write the recorded metrics")
)

const recordingsFile = "testdata/alarms.json"

// recordingsOf returns, by name, the recordings of situations.
func recordingsOf(t *testing.T, situations []situation) map[string]series {
	t.Helper()
	all := map[string]series{}
	if !*recordNow {
		text, err := os.ReadFile(recordingsFile)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &all))
		return all
	}
	for _, c := range situations {
		if c.loads != nil {
			c.minutes = lasts
			all[c.name] = c.play(t)
		}
	}
	if *writeNow {
		text, err := json.Marshal(all)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(recordingsFile, append(bytes.ReplaceAll(text, []byte(`",`), []byte("\",\n")), '\n'), 0o644))
	}
	return all
}

// MarshalJSON writes equal consecutive values of a metric as one run: 5*0 means five zeros.
func (s series) MarshalJSON() ([]byte, error) {
	texts := map[string]string{}
	for name, values := range s {
		var runs []string
		for i := 0; i < len(values); {
			n := 1
			for i+n < len(values) && fmt.Sprint(values[i+n]) == fmt.Sprint(values[i]) {
				n++
			}
			runs = append(runs, fmt.Sprintf("%d*%v", n, values[i]))
			i += n
		}
		texts[name] = strings.Join(runs, " ")
	}
	return json.Marshal(texts)
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (s *series) UnmarshalJSON(text []byte) error {
	var texts map[string]string
	if err := json.Unmarshal(text, &texts); err != nil {
		return err
	}
	*s = series{}
	for name, runs := range texts {
		for run := range strings.FieldsSeq(runs) {
			count, value, _ := strings.Cut(run, "*")
			n, err := strconv.Atoi(count)
			if err != nil {
				return err
			}
			v, err := strconv.ParseFloat(value, 64) // ParseFloat accepts NaN
			if err != nil {
				return err
			}
			(*s)[name] = append((*s)[name], slices.Repeat([]float64{v}, n)...)
		}
	}
	return nil
}

// task is a message in progress: the time since the beginning of the recording, and the time since the
// publish of the message.
type task struct{ since, age time.Duration }

// flow is the work of one topic in a recording.
type flow struct {
	// every is the time between two messages, or 0 for no message.
	every time.Duration
	// handle does the work of a message.
	handle func(ctx context.Context, at task) error
	// idle reports whether no worker runs. A nil idle means that workers always run.
	idle func(since time.Duration) bool
}

// recorded is a run of the real transport and the real consumers on an SQS in memory, in virtual time.
type recorded struct {
	minutes int
	loads   map[string]flow
	// refused reports whether SQS refuses all requests. A nil refused means never.
	refused func(since time.Duration) bool
	// works reports whether posts arrive in homes and likes are counted. The canary depends on it.
	works func(since time.Duration) bool
}

// play records the metrics of SQS, and the metrics from the logs of the daemons.
func (r recorded) play(t *testing.T) series {
	t.Helper()
	s := series{}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		server := sqstest.New(5 * time.Millisecond)
		server.SetFault(func(string) *sqstest.Fault {
			if r.refused == nil || !r.refused(time.Since(began)) {
				return nil
			}
			return &sqstest.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}
		})
		log := &logged{}
		logger := obs.NewLogger(log, zapcore.InfoLevel, false)
		broker := sqs.New(sqstest.Client(server), sqs.Options{Prefix: "q", PollWait: 20 * time.Second, Log: zap.NewNop()})
		ctx, cancel := context.WithCancel(t.Context())
		var roots []chan struct{}
		root := func(run func()) {
			ended := make(chan struct{})
			roots = append(roots, ended)
			go func() { defer close(ended); run() }()
		}
		for topic, l := range r.loads {
			if l.every > 0 {
				root(func() { publish(ctx, t, broker, topic, l.every) })
			}
			root(func() { work(ctx, t, broker, logger, topic, l, began) })
		}
		root(func() { r.canary(ctx, logger, began) })
		for range r.minutes {
			sample(t, s, server, log)
		}
		cancel()
		for _, ended := range roots {
			<-ended
		}
		assert.NoError(t, broker.Close())
	})
	return s
}

// publish sends a message after each interval. During an outage of SQS the message is lost, like a
// request with the answer 503.
func publish(ctx context.Context, t *testing.T, broker *sqs.Broker, topic string, every time.Duration) {
	t.Helper()
	ids := id.NewGenerator(time.Now)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		eventID, err := ids.New()
		if !assert.NoError(t, err) {
			return
		}
		msg, err := queue.Message(ctx, &messages.UserForgotten{Header: messages.Header{EventID: eventID, Time: time.Now()}, UserID: "ann"})
		if assert.NoError(t, err) {
			_ = broker.Publish(topic, msg) // publishing fails during an outage of the queues
		}
	}
}

// work consumes a topic, except while no worker runs.
func work(ctx context.Context, t *testing.T, broker *sqs.Broker, log *zap.Logger, topic string, l flow, began time.Time) {
	t.Helper()
	for ctx.Err() == nil {
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		if l.idle == nil || !l.idle(time.Since(began)) {
			c := &queue.Consumer{
				Topic: topic, Broker: broker, Workers: 32, Now: time.Now, Log: log,
				Handle: func(ctx context.Context, event messages.Event) error {
					return l.handle(ctx, task{time.Since(began), time.Since(event.Head().Time)})
				},
			}
			go func() { ended <- c.Run(running) }()
		} else {
			ended <- nil
		}
		for idle := l.idle != nil && l.idle(time.Since(began)); ctx.Err() == nil && (l.idle == nil || l.idle(time.Since(began)) == idle); {
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		}
		stop()
		assert.NoError(t, <-ended)
	}
}

// sample lets a minute pass and records the metrics of the minute.
func sample(t *testing.T, s series, server *sqstest.Server, log *logged) {
	t.Helper()
	const each = 5 * time.Second
	highest := map[string]float64{}
	before := map[string]int{}
	for _, topic := range queue.Topics() {
		before[topic] = server.Removed("q-" + topic)
	}
	for range int(time.Minute / each) {
		<-time.After(each) // in virtual time
		for _, topic := range queue.Topics() {
			for _, name := range []string{"q-" + topic, "q-" + topic + sqs.DeadSuffix} {
				visible, inFlight, delayed := server.States(name)
				for metric, n := range map[string]int{
					"ApproximateNumberOfMessagesVisible": visible, "ApproximateNumberOfMessagesNotVisible": inFlight, "ApproximateNumberOfMessagesDelayed": delayed,
				} {
					key := metricName("AWS/SQS", metric, "Maximum", "QueueName="+name)
					highest[key] = max(highest[key], float64(n))
				}
			}
		}
	}
	for key, n := range highest {
		s[key] = append(s[key], n)
	}
	for _, topic := range queue.Topics() {
		key := metricName("AWS/SQS", "NumberOfMessagesDeleted", "Sum", "QueueName=q-"+topic)
		s[key] = append(s[key], float64(server.Removed("q-"+topic)-before[topic]))
	}
	countLines(t, s, log.take(t))
}

// countLines adds the metrics that the filters of services.yaml make from the log lines of a minute. A
// filter without a match makes no metric.
func countLines(t *testing.T, s series, lines []map[string]any) {
	t.Helper()
	resources := stack(t, "services.yaml", map[string]string{})
	for _, filter := range []string{"CanaryPasses", "FailedMessages"} {
		p := at(t, resources, filter, "Properties")
		into := at(t, p, "MetricTransformations", 0).(map[string]any)
		found := map[string]float64{}
		if _, ok := into["Dimensions"]; !ok {
			found[metricName(fmt.Sprint(into["MetricNamespace"]), fmt.Sprint(into["MetricName"]), "Sum")] = math.NaN()
		} else {
			for _, topic := range queue.Topics() {
				found[metricName(fmt.Sprint(into["MetricNamespace"]), fmt.Sprint(into["MetricName"]), "Sum", "Topic="+topic)] = math.NaN()
			}
		}
		for _, line := range lines {
			if !matches(t, fmt.Sprint(at(t, p, "FilterPattern")), line) {
				continue
			}
			var dimensions []string
			if list, ok := into["Dimensions"].([]any); ok {
				field, _ := strings.CutPrefix(fmt.Sprint(at(t, list[0], "Value")), "$.")
				dimensions = append(dimensions, fmt.Sprint(at(t, list[0], "Key"), "=", line[field]))
			}
			key := metricName(fmt.Sprint(into["MetricNamespace"]), fmt.Sprint(into["MetricName"]), "Sum", dimensions...)
			if found[key]++; math.IsNaN(found[key]) {
				found[key] = 1
			}
		}
		for key, n := range found {
			s[key] = append(s[key], n)
		}
	}
}

// matches evaluates a filter pattern of CloudWatch Logs in the form { $.field = "text" && ... }. In the
// pattern * matches any text.
func matches(t *testing.T, pattern string, line map[string]any) bool {
	t.Helper()
	conditions := regexp.MustCompile(`\$\.(\w+) = "([^"]*)"`).FindAllStringSubmatch(pattern, -1)
	require.NotEmpty(t, conditions, pattern)
	return !slices.ContainsFunc(conditions, func(c []string) bool {
		value, ok := line[c[1]]
		return !ok || c[2] != "*" && c[2] != value
	})
}

// canary writes the log lines that the canary of an api on AWS writes.
func (r recorded) canary(ctx context.Context, log *zap.Logger, began time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(30 * time.Second):
		}
		if r.works == nil || r.works(time.Since(began)) {
			log.Info(obs.CanaryPasses)
		}
	}
}

// logged collects the lines of a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// take returns the lines since the last call.
func (l *logged) take(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for text := range strings.Lines(l.text.String()) {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		all = append(all, line)
	}
	l.text.Reset()
	return all
}
