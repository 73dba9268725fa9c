package e2e

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"fanfare/internal/queue"
)

// faultBegins and faultEnds are the minutes in which the fault of a situation begins and ends.
const (
	faultBegins = 18
	faultEnds   = 45
	// lasts is the number of minutes in a situation.
	lasts = 70
	// latest is the largest delay of a metric in CloudWatch, in minutes.
	latest = 2
)

// situation is a deployment as CloudWatch sees it. The metrics of SQS and of the log are recordings of
// the real transport. All other series follow the descriptions of AWS.
type situation struct {
	name string
	// recorded is the recording. Without flows it is the recording of calm.
	recorded
	// more adds or changes metrics that are not recorded.
	more func(s series)
	// want are the alarms that the situation raises, and stays are the alarms of want that are still on
	// at the end.
	want, stays []string
}

// calm is the situation of a deployment in which only a canary works.
const calm = "canary alone"

// away reports whether the fault of a situation is present.
func away(since time.Duration) bool {
	return since >= faultBegins*time.Minute && since < faultEnds*time.Minute
}

func fine(since time.Duration) bool { return !away(since) }

// done returns the work of a healthy worker.
func done(took time.Duration) func(context.Context, task) error {
	return func(ctx context.Context, _ task) error {
		select {
		case <-ctx.Done():
		case <-time.After(took):
		}
		return ctx.Err()
	}
}

// unless returns work that fails with err during the fault.
func unless(err error, took time.Duration) func(context.Context, task) error {
	return func(ctx context.Context, at task) error {
		if away(at.since) {
			return err
		}
		return done(took)(ctx, at)
	}
}

// waits returns the work of deletions and removals. They wait for d by design, and then succeed unless
// fault returns an error.
func waits(d time.Duration, fault func(since time.Duration) error) func(context.Context, task) error {
	return func(_ context.Context, at task) error {
		if err := fault(at.since); err != nil {
			return err
		}
		if at.age < d {
			return &queue.Later{After: d - at.age, Reason: "by design"}
		}
		return nil
	}
}

func never(time.Duration) error { return nil }

// quiet returns the work of a canary alone: a post, its like and its deletion every ten seconds.
func quiet() map[string]flow {
	return map[string]flow{
		queue.TopicPosts:     {every: 10 * time.Second, handle: done(50 * time.Millisecond)},
		queue.TopicLikes:     {every: 10 * time.Second, handle: done(time.Second)},
		queue.TopicBackfills: {every: 10 * time.Second, handle: waits(6*time.Minute, never)},
		queue.TopicChunks:    {every: 0, handle: done(time.Second)},
	}
}

// with returns the flows of quiet, in which the given topics replace equal topics.
func with(topics map[string]flow) map[string]flow {
	all := quiet()
	maps.Copy(all, topics)
	return all
}

// idleLoads returns flows without messages.
func idleLoads() map[string]flow {
	all := quiet()
	for topic, l := range all {
		l.every = 0
		all[topic] = l
	}
	return all
}

// healthy returns situations that raise no alarm.
func healthy() []situation {
	return []situation{
		{name: "traffic", recorded: recorded{loads: with(map[string]flow{
			queue.TopicPosts: {every: 2 * time.Second, handle: done(50 * time.Millisecond)}, queue.TopicLikes: {every: time.Second, handle: done(time.Second)},
			queue.TopicChunks: {every: 20 * time.Second, handle: done(15 * time.Second)},
		})}},
		{name: calm, recorded: recorded{loads: quiet()}},
		{name: "night without a canary", recorded: recorded{loads: idleLoads()}},
		{name: "queues that pause their metrics", recorded: recorded{loads: idleLoads()}, more: func(s series) {
			for name := range s {
				if strings.HasPrefix(name, "AWS/SQS ") {
					s.write(name, math.NaN(), 0, lasts)
				}
			}
		}},
		{name: "removals that wait an hour", recorded: recorded{loads: with(map[string]flow{queue.TopicBackfills: {every: 30 * time.Second, handle: waits(time.Hour, never)}})}},
		{name: "a chunk of four minutes each ten", recorded: recorded{loads: with(map[string]flow{queue.TopicChunks: {every: 10 * time.Minute, handle: done(4 * time.Minute)}})}},
		{name: "one message that always fails", recorded: recorded{loads: with(map[string]flow{queue.TopicChunks: {every: 75 * time.Minute, handle: func(context.Context, task) error { return errors.New("poison") }}})}},
		{name: "workers exchanged in two minutes", recorded: recorded{loads: with(map[string]flow{queue.TopicPosts: {every: 10 * time.Second, handle: done(50 * time.Millisecond), idle: func(since time.Duration) bool {
			return since > faultBegins*time.Minute && since < (faultBegins+2)*time.Minute
		}}})}},
		{name: "a partition that splits in four minutes", recorded: recorded{}, more: func(s series) {
			s.write(throttles("WriteKeyRangeThroughput"), 800, faultBegins, faultBegins+4)
		}},
		{name: "single errors", recorded: recorded{}, more: func(s series) {
			for minute := 0; minute < lasts; minute += 9 {
				s.write(ofBalancer("HTTPCode_Target_5XX_Count", "Sum", true), 30, minute, minute+1)
				s.write(ofBalancer("HTTPCode_ELB_5XX_Count", "Sum", false), 30, minute, minute+1)
				s.write(ofBalancer("UnHealthyHostCount", "Maximum", true), 1, minute, minute+2)
				s.write(metricName("AWS/DynamoDB", "SystemErrors", "Sum", "TableName=feeds", "Operation=Query"), 4, minute, minute+1)
			}
		}},
		{name: "a balancer without requests", recorded: recorded{}, more: func(s series) {
			for _, name := range []string{ofBalancer("RequestCount", "Sum", true), ofBalancer("RequestCount", "Sum", false), ofBalancer("TargetResponseTime", "p99", true)} {
				s.write(name, math.NaN(), 0, lasts)
			}
		}},
	}
}

// throttles returns the name of the metric of calls that the table refused.
func throttles(reason string) string {
	return metricName("AWS/DynamoDB", reason+"ThrottleEvents", "Sum", "TableName=feeds")
}

// indexThrottles returns the name of the metric of calls that the index refused.
func indexThrottles(reason string) string {
	return metricName("AWS/DynamoDB", reason+"ThrottleEvents", "Sum", "TableName=feeds", "GlobalSecondaryIndexName=GSI1")
}

// ofBalancer returns the name of a metric of the load balancer, or of its target group.
func ofBalancer(metric, stat string, ofTargets bool) string {
	dimensions := []string{"LoadBalancer=app/feed/1"}
	if ofTargets {
		dimensions = append(dimensions, "TargetGroup=targetgroup/feed/2")
	}
	return metricName("AWS/ApplicationELB", metric, stat, dimensions...)
}

// tasksOf returns the name of the metric that counts the running tasks of a service.
func tasksOf(service string) string {
	return metricName("AWS/ECS", "CPUUtilization", "SampleCount", "ClusterName=test-cluster", "ServiceName=test-"+service)
}

// alarming returns situations that raise alarms.
func alarming() []situation {
	denied := &queue.UnavailableError{Op: "write", Err: errors.New("AccessDenied")}
	denies := func(since time.Duration) error {
		if away(since) {
			return denied
		}
		return nil
	}
	failing := with(map[string]flow{
		queue.TopicPosts:     {every: 5 * time.Second, handle: unless(denied, 50*time.Millisecond)},
		queue.TopicBackfills: {every: 20 * time.Second, handle: waits(6*time.Minute, denies)},
		queue.TopicChunks:    {every: 30 * time.Second, handle: unless(denied, time.Second)},
	})
	return []situation{
		{name: "fan-out is denied its writes", recorded: recorded{loads: failing, works: fine}, want: []string{"PostsFail", "BackfillsFail", "ChunksFail", "CanarySilent"}},
		{name: "SQS is away", recorded: recorded{loads: quiet(), refused: away, works: fine}, more: func(s series) {
			s.write(ofBalancer("HTTPCode_Target_5XX_Count", "Sum", true), 200, faultBegins, faultEnds)
		}, want: []string{"CanarySilent", "TargetErrors", "BackfillsStuck"}},
		{name: "workers may not receive", recorded: recorded{loads: with(map[string]flow{queue.TopicPosts: {every: 10 * time.Second, handle: done(50 * time.Millisecond), idle: away}}), works: fine},
			want: []string{"PostsStuck", "CanarySilent"}},
		{name: "DynamoDB is away", recorded: recorded{loads: with(map[string]flow{
			queue.TopicPosts: {every: 5 * time.Second, handle: unless(denied, 50*time.Millisecond)}, queue.TopicLikes: {every: 5 * time.Second, handle: unless(denied, time.Second)},
			queue.TopicBackfills: {every: 20 * time.Second, handle: waits(6*time.Minute, denies)},
		}), works: fine}, more: func(s series) {
			for _, op := range []string{"GetItem", "Query", "TransactWriteItems"} {
				s.write(metricName("AWS/DynamoDB", "SystemErrors", "Sum", "TableName=feeds", "Operation="+op), 40, faultBegins, faultEnds)
			}
			s.write(ofBalancer("HTTPCode_Target_5XX_Count", "Sum", true), 500, faultBegins, faultEnds)
		}, want: []string{"TableErrors", "TargetErrors", "CanarySilent", "PostsFail", "LikesFail", "BackfillsFail"}},
		{name: "the table is at its account's quota", recorded: recorded{}, more: func(s series) {
			s.write(throttles("WriteAccountLimit"), 5000, faultBegins, faultEnds)
		}, want: []string{"WritesOverAccount"}},
		{name: "the table is at its maximum", recorded: recorded{}, more: func(s series) {
			s.write(throttles("ReadMaxOnDemandThroughput"), 50, faultBegins, faultEnds)
			s.write(indexThrottles("WriteMaxOnDemandThroughput"), 50, faultBegins, faultEnds)
		}, want: []string{"ReadsOverMaximum", "WritesOverMaximum"}},
		{name: "provisioned capacity is used up", recorded: recorded{}, more: func(s series) {
			s.write(throttles("WriteProvisionedThroughput"), 50, faultBegins, faultEnds)
			s.write(indexThrottles("ReadProvisionedThroughput"), 50, faultBegins, faultEnds)
		}, want: []string{"ReadsOverProvisioned", "WritesOverProvisioned"}},
		{name: "a partition of the index stays full", recorded: recorded{}, more: func(s series) {
			s.write(indexThrottles("WriteKeyRangeThroughput"), 300, faultBegins, faultEnds)
		}, want: []string{"WritesOverPartition"}},
		{name: "a like aggregator is stuck", recorded: recorded{loads: with(map[string]flow{queue.TopicLikes: {every: 10 * time.Second, handle: func(ctx context.Context, at task) error {
			if away(at.since) {
				return done(faultEnds*time.Minute-at.since)(ctx, at)
			}
			return done(time.Second)(ctx, at)
		}}}), works: fine}, want: []string{"LikesStuck", "CanarySilent"}},
		{name: "the canary is dead", recorded: recorded{loads: idleLoads()}, more: func(s series) {
			s.write(metricName("Fanfare/test", "CanaryPasses", "Sum"), math.NaN(), faultBegins, faultEnds)
		}, want: []string{"CanarySilent"}},
		{name: "no fanout runs", recorded: recorded{loads: with(map[string]flow{
			queue.TopicPosts: {every: 10 * time.Second, handle: done(50 * time.Millisecond), idle: away}, queue.TopicBackfills: {every: 10 * time.Second, handle: waits(6*time.Minute, never), idle: away},
		}), works: fine}, more: func(s series) { s.write(tasksOf("fanout"), math.NaN(), faultBegins, faultEnds) }, want: []string{"NoFanout", "PostsStuck", "BackfillsStuck", "CanarySilent"}},
		{name: "no api runs", recorded: recorded{}, more: func(s series) {
			s.write(tasksOf("api"), math.NaN(), faultBegins, faultEnds)
			s.write(ofBalancer("RequestCount", "Sum", true), math.NaN(), faultBegins, faultEnds)
			s.write(ofBalancer("RequestCount", "Sum", false), math.NaN(), faultBegins, faultEnds)
			s.write(ofBalancer("HTTPCode_ELB_5XX_Count", "Sum", false), 600, faultBegins, faultEnds)
		}, want: []string{"NoApi", "BalancerErrors"}},
		{name: "tasks of api do not answer", recorded: recorded{}, more: func(s series) {
			s.write(ofBalancer("UnHealthyHostCount", "Maximum", true), 2, faultBegins, faultEnds)
			s.write(ofBalancer("HTTPCode_ELB_5XX_Count", "Sum", false), 300, faultBegins, faultEnds)
		}, want: []string{"TargetsUnhealthy", "BalancerErrors"}},
		{name: "answers take five seconds", recorded: recorded{}, more: func(s series) {
			s.write(ofBalancer("TargetResponseTime", "p99", true), 5, faultBegins, faultEnds)
		}, want: []string{"AnswersSlow"}},
		{name: "too few workers", recorded: recorded{}, more: func(s series) {
			for minute := faultBegins; minute < faultEnds; minute++ {
				s.write(ofQueue("ApproximateNumberOfMessagesVisible", "Maximum", "q-posts"), float64(20_000*(minute-faultBegins)), minute, minute+1)
				s.write(ofQueue("NumberOfMessagesDeleted", "Sum", "q-posts"), 6000, minute, minute+1)
			}
		}, want: []string{"PostsLate"}},
		{name: "dead letters", recorded: recorded{}, more: func(s series) {
			s.write(ofQueue("ApproximateNumberOfMessagesVisible", "Maximum", "q-chunks-dlq"), 1, faultBegins, lasts)
		}, want: []string{"ChunksDeadLetters"}, stays: []string{"ChunksDeadLetters"}},
		{name: "messages pile up", recorded: recorded{}, more: func(s series) {
			s.write(ofQueue("ApproximateNumberOfMessagesNotVisible", "Maximum", "q-backfills"), 90_000, faultBegins, faultEnds)
			s.write(ofQueue("ApproximateNumberOfMessagesDelayed", "Maximum", "q-backfills"), 200_000, faultBegins, faultEnds)
		}, want: []string{"MessagesInFlight", "MessagesDelayed"}},
	}
}

func ofQueue(metric, stat, name string) string {
	return metricName("AWS/SQS", metric, stat, "QueueName="+name)
}

func (s series) clone() series {
	other := series{}
	for name, values := range s {
		other[name] = slices.Clone(values)
	}
	return other
}

// write sets a metric to a value for the minutes from..to-1.
func (s series) write(name string, value float64, from, to int) {
	if s[name] == nil {
		s[name] = slices.Repeat([]float64{math.NaN()}, lasts)
	}
	for minute := from; minute < to; minute++ {
		s[name][minute] = value
	}
}
