package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// RefusalTime is the time in which RefusalLog writes at most one line for each reason.
const RefusalTime = time.Minute

func newThrottles() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fanfare_table_throttles_total", Help: "Tries of calls that DynamoDB refused for lack of capacity or did in part, repeated ones included, by the short resource (table or index), kind of call, and reason.",
	}, []string{"on", "op", "reason"})
}

// Refused counts an attempt that the table refused because of missing capacity.
func (m *Metrics) Refused(r table.Refusal) {
	m.throttles.WithLabelValues(shortOf(r), string(r.Op), string(r.Reason)).Inc()
}

// RefusalLog returns a function that logs the attempts that the table refuses because of missing capacity. log
// must be sampled by RefusalTime. Each line names one of the refused keys.
func RefusalLog(log *zap.Logger) func(table.Refusal) {
	return func(r table.Refusal) {
		log.Warn(refusalText(r.Reason), zap.String("on", shortOf(r)), zap.String("op", string(r.Op)),
			zap.String("collection", schema.Collection(r.PK)), zap.String("key", r.PK))
	}
}

func shortOf(r table.Refusal) string {
	if r.Index {
		return "index"
	}
	return "table"
}

func refusalText(reason table.Shortage) string {
	switch reason {
	case table.ShortKeyRange:
		return "DynamoDB refuses a call: one partition is full, and more capacity does not help"
	case table.ShortAccount:
		return "DynamoDB refuses a call: the account's quota for a table is used up"
	case table.ShortMaxOnDemand:
		return "DynamoDB refuses a call: the maximum that was set for the table or its index is used up"
	case table.ShortProvisioned:
		return "DynamoDB refuses a call: the provisioned capacity is used up"
	case table.ShortUnknown:
	}
	return "DynamoDB refuses a call for lack of capacity"
}
