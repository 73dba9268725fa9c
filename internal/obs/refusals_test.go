package obs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/obs"
	"fanfare/internal/table"
)

func TestRefusalsAreCountedByReason(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := obs.NewMetrics(reg)
	require.NoError(t, err)
	for _, r := range []table.Refusal{
		{Op: table.OpPut, Reason: table.ShortKeyRange, Index: true, PK: "u#ann#like"},
		{Op: table.OpQuery, Reason: table.ShortMaxOnDemand, PK: "u#ann"},
		{Op: table.OpQuery, Reason: table.ShortMaxOnDemand, PK: "u#bob"},
	} {
		m.Refused(r)
	}
	text := scrape(t, reg)
	assert.Contains(t, text, `fanfare_table_throttles_total{on="index",op="put",reason="key_range"} 1`+"\n")
	assert.Contains(t, text, `fanfare_table_throttles_total{on="table",op="query",reason="max_on_demand"} 2`+"\n")
}

// Many refusals cause one line a minute for each reason. The line has one key.
func TestTheLogHasALineAMinuteForEachReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		log := obs.SampledEvery(zap.New(core), zapcore.WarnLevel, obs.RefusalTime)
		refused := obs.RefusalLog(log)
		reasons := []table.Shortage{table.ShortKeyRange, table.ShortAccount, table.ShortMaxOnDemand, table.ShortProvisioned, table.ShortUnknown}
		for range 170 { // the last round is at 2:49
			for _, reason := range reasons {
				refused(table.Refusal{Op: table.OpPut, Reason: reason, Index: true, PK: "u#ann#like"})
			}
			<-time.After(time.Second)
		}
		texts := map[string]int{}
		for _, line := range logs.All() {
			texts[line.Message]++
			fields := line.ContextMap()
			assert.Equal(t, "index", fields["on"])
			assert.Equal(t, "like", fields["collection"])
			assert.Equal(t, "u#ann#like", fields["key"])
		}
		assert.Len(t, texts, len(reasons))
		for text, lines := range texts {
			assert.Equal(t, 3, lines, text)
		}
		require.NoError(t, log.Sync())
	})
}
