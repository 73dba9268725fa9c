package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/queue"
)

// addMessages makes the metrics about messages.
func (m *Metrics) addMessages() {
	m.likeLag = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "fanfare_like_lag_seconds", Help: "Time from the first like of a window to the write of its count.",
		Buckets: waits(),
	})
	m.notices = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_notices_total", Help: "Events about notifications, by kind of notification and the end of their window: written, unchanged, hidden (the post is gone), again (a part of the window at least is redelivered).",
	}, []string{"kind", "result"})
	m.noticesHeld = prometheus.NewGauge(prometheus.GaugeOpts{Name: "fanfare_notices_held", Help: "Events about notifications that this process holds in windows, at most 5000."})
	m.noticeLag = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "fanfare_notice_lag_seconds", Help: "Time from the first event of a window to the write of its notification.",
		Buckets: waits(),
	})
	m.unreadReads = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fanfare_unread_reads_total", Help: "Reads of a number of unread notifications, for calls of the API and open streams.",
	})
	m.handled = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fanfare_message_seconds", Help: "Time from the receive of a message to its answer, by result: done, again (it failed), later (it waits by design), handed_back (at a stop), refused or attempts (dead letters).",
		Buckets: waits(),
	}, []string{"topic", "result"})
	m.age = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fanfare_message_age_seconds", Help: "Age of a message when its work was done, counted from the time at which it was due. Waits for workers, for other work and after failures are part of it, a wait that its event asks for is not.",
		Buckets: waits(),
	}, []string{"topic"})
	m.dead = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_dead_letters_total", Help: "Messages that became dead letters, by reason: refused for good, or too many attempts.",
	}, []string{"topic", "reason"})
	m.overdue = newOverdues()
}

// Notice counts the events of a window of the notifier.
func (m *Metrics) Notice(kind, result string, events int, lag time.Duration) {
	m.notices.WithLabelValues(kind, result).Add(float64(events))
	m.noticeLag.Observe(lag.Seconds())
}

// NoticesHeld adds change to the number of events that the notifier holds.
func (m *Metrics) NoticesHeld(change int) { m.noticesHeld.Add(float64(change)) }

// UnreadRead counts a read of a number of unread notifications.
func (m *Metrics) UnreadRead() { m.unreadReads.Inc() }

// answered counts the end of a message's receive.
func (m *Metrics) answered(a queue.Answered) {
	m.handled.WithLabelValues(a.Topic, string(a.Result)).Observe(a.Took.Seconds())
	switch a.Result {
	case queue.ResultRefused, queue.ResultAttempts:
		m.dead.WithLabelValues(a.Topic, string(a.Result)).Inc()
	case queue.ResultDone:
		if !a.Due.IsZero() {
			m.age.WithLabelValues(a.Topic).Observe(max(0, time.Since(a.Due).Seconds()))
		}
	case queue.ResultAgain, queue.ResultLater, queue.ResultHandedBack: // the message is redelivered
	}
}
