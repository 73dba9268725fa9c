package obs

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/queue"
)

const (
	// awaited is the maximum time, after its delay, in which a failed message returns to
	// this process. After this time, another process has the message.
	awaited = 2 * time.Minute
	// mostUnfinished is the maximum number of messages of one topic in memory. It is above the
	// number of messages that a process holds. In an outage the first failed messages are the
	// oldest, so the first ones are kept.
	mostUnfinished = 1 << 15
)

// overdues collects the age of the oldest unfinished message of each topic.
type overdues struct {
	desc *prometheus.Desc

	mu  sync.Mutex
	all []*Receives
}

func newOverdues() *overdues {
	return &overdues{desc: prometheus.NewDesc("fanfare_message_overdue_seconds",
		"Age of the oldest message that the process holds, or that failed there and was not redelivered yet; 0 if there is none. It counts from the receive, and after a failure from the time at which the message was due. Messages that wait by design have none.",
		[]string{"role", "topic"}, nil)}
}

// Describe implements prometheus.Collector.
func (o *overdues) Describe(ch chan<- *prometheus.Desc) { ch <- o.desc }

// Collect implements prometheus.Collector.
func (o *overdues) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.all {
		ch <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, r.oldest(time.Now()).Seconds(), r.role, r.topic)
	}
}

// Receives records metrics about the messages of one topic that one role receives.
type Receives struct {
	metrics     *Metrics
	role, topic string

	mu         sync.Mutex
	unfinished map[string]unfinished
}

// unfinished is a message whose work is not done yet.
type unfinished struct {
	// since is the time from which the message's age counts.
	since time.Time
	// until is the time after which another process has the failed message. It is zero
	// while this process holds the message.
	until time.Time
}

// Receives returns the metrics of a topic for a role. The series of the topic exist from this
// call on, so that an alert sees the first failure.
func (m *Metrics) Receives(role, topic string) *Receives {
	for _, result := range []queue.Result{queue.ResultDone, queue.ResultAgain} {
		m.handled.WithLabelValues(topic, string(result))
	}
	for _, reason := range []queue.Result{queue.ResultRefused, queue.ResultAttempts} {
		m.dead.WithLabelValues(topic, string(reason))
	}
	r := &Receives{metrics: m, role: role, topic: topic, unfinished: map[string]unfinished{}}
	m.overdue.mu.Lock()
	defer m.overdue.mu.Unlock()
	m.overdue.all = append(m.overdue.all, r)
	return r
}

// Taken records that work on a message begins.
func (r *Receives) Taken(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	message, failed := r.unfinished[id]
	if !failed {
		message.since = time.Now()
	}
	message.until = time.Time{}
	r.keep(id, message)
}

// Answered counts the end of a receive. Only a failed message stays unfinished: a message that is
// left for later waits intentionally.
func (r *Receives) Answered(a queue.Answered) {
	r.metrics.answered(a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Result != queue.ResultAgain {
		delete(r.unfinished, a.ID)
		return
	}
	message := r.unfinished[a.ID]
	if !a.Due.IsZero() {
		message.since = a.Due
	}
	message.until = time.Now().Add(a.After + awaited)
	r.keep(a.ID, message)
}

// keep stores a message if there is room for one more. The caller holds mu.
func (r *Receives) keep(id string, message unfinished) {
	if _, known := r.unfinished[id]; known || len(r.unfinished) < mostUnfinished {
		r.unfinished[id] = message
	}
}

// oldest returns the age of the oldest unfinished message, and removes the messages that another process has.
func (r *Receives) oldest(now time.Time) (age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, message := range r.unfinished {
		if !message.until.IsZero() && now.After(message.until) {
			delete(r.unfinished, id)
			continue
		}
		age = max(age, now.Sub(message.since))
	}
	return age
}
