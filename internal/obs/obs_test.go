package obs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fanfare/internal/disk"
	"fanfare/internal/obs"
	"fanfare/internal/queue"
	"fanfare/internal/table"
)

func TestLogIsOneLineOfJSONAnEvent(t *testing.T) {
	var out bytes.Buffer
	log := obs.NewLogger(&out, zapcore.InfoLevel, false)
	log.Debug("quiet")
	log.Info("two\nlines", zap.Error(errors.New("a\nb")), zap.Duration("took", time.Second))
	require.Equalf(t, 1, strings.Count(out.String(), "\n"), "log is %q", &out)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["level"] != "info" || line["took"] != "1s" {
		t.Errorf("line is %v, %v", line, err)
	}
}

func scrape(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	res := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equalf(t, http.StatusOK, res.Code, "metrics answered %d %s", res.Code, res.Body)
	return res.Body.String()
}

func TestMetricsCountEvents(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := obs.NewMetrics(reg)
	require.NoError(t, err)
	require.NoError(t, obs.RegisterDepth(reg, func(_ context.Context, topic string) (queue.Depth, error) {
		if topic == queue.TopicLikes {
			return queue.Depth{}, errors.New("away")
		}
		return queue.Depth{Ready: 1, Delayed: 2, InFlight: 3, Dead: 4}, nil
	}))
	require.NoError(t, obs.RegisterStore(reg, "table", func() disk.Stats {
		return disk.Stats{
			FlushStalls: 5, CompactionStalls: 6, FailedCompactions: 7, LogBytes: 8, MemtableBytes: 9, L0Files: 10,
			L0Sublevels: 11, DebtBytes: 12, DiskBytes: 13, FreeBytes: 14, TotalBytes: 15, ItemBytes: 16, NearlyFull: true, Damaged: true,
		}
	}))
	m.Post()
	m.Like()
	m.UnreadRead()
	m.Flush(1500)
	m.LikeWindow(true, 2, 30)
	m.Delivered(40, time.Second)
	m.LikeLag(time.Second)
	posts := m.Receives("fanout", queue.TopicPosts)
	for _, result := range []queue.Result{queue.ResultDone, queue.ResultAgain, queue.ResultLater, queue.ResultRefused, queue.ResultAttempts} {
		posts.Answered(queue.Answered{Topic: queue.TopicPosts, Result: result, Took: time.Second, Due: time.Now().Add(-time.Minute)})
	}
	posts.Answered(queue.Answered{Topic: queue.TopicPosts, Result: queue.ResultDone}) // the due time is unknown
	require.NoError(t, obs.RegisterThrottle(reg, func() float64 { return 25 }, func() int { return 20 }))
	require.NoError(t, obs.RegisterKeys(reg, func() (done, failed int64) { return 18, 19 }))
	m.Request("/v1/me", "GET", 200, time.Millisecond)
	observe := m.Table(obs.FlowFanout)
	observe(table.OpQuery, table.Units{Read: 2.5}, nil)
	observe(table.OpPut, table.Units{Write: 1}, &table.ConditionError{})
	observe(table.OpGet, table.Units{}, errors.New("away"))
	observe(table.OpGet, table.Units{}, &table.UnavailableError{Reason: table.ShortUnknown})
	observe(table.OpTransact, table.Units{}, &table.CancelledError{Reasons: []table.CancelledOp{{}, {Reason: table.CancelThrottled}}})
	observe(table.OpTransact, table.Units{}, &table.CancelledError{Reasons: []table.CancelledOp{{Reason: table.CancelConflict}}})
	text := scrape(t, reg)
	for _, want := range []string{
		"fanfare_posts_total 1", "fanfare_unread_reads_total 1", "fanfare_likes_total 1", "fanfare_deliveries_total 40", "fanfare_post_visible_seconds_count 1",
		"fanfare_like_flushes_total 1", "fanfare_like_windows_lost_total 1", "fanfare_like_fences_total 2", "fanfare_like_ledger_pruned_total 30",
		`fanfare_like_ledger_bytes_bucket{le="2048"} 1`,
		`fanfare_table_capacity_units_total{flow="fanout",kind="read",op="query"} 2.5`,
		`fanfare_table_capacity_units_total{flow="fanout",kind="write",op="put"} 1`,
		`fanfare_table_calls_total{flow="fanout",op="put",result="condition"} 1`,
		`fanfare_table_calls_total{flow="fanout",op="get",result="error"} 1`,
		`fanfare_queue_depth{state="ready",topic="posts"} 1`, `fanfare_queue_depth{state="in_flight",topic="backfills"} 3`, `fanfare_queue_depth{state="dead",topic="chunks"} 4`,
		`fanfare_write_stalls_total{store="table",waits_for="flush"} 5`,
		`fanfare_write_stalls_total{store="table",waits_for="compaction"} 6`,
		`fanfare_failed_compactions_total{store="table"} 7`, `fanfare_store_log_bytes{store="table"} 8`,
		`fanfare_store_memtable_bytes{store="table"} 9`, `fanfare_store_item_bytes{store="table"} 16`, `fanfare_store_l0_files{store="table"} 10`,
		`fanfare_store_l0_sublevels{store="table"} 11`, `fanfare_store_compaction_debt_bytes{store="table"} 12`,
		`fanfare_store_bytes{store="table"} 13`, `fanfare_disk_free_bytes{store="table"} 14`,
		`fanfare_disk_size_bytes{store="table"} 15`, `fanfare_disk_nearly_full{store="table"} 1`, `fanfare_store_damaged{store="table"} 1`,
		`fanfare_table_calls_total{flow="fanout",op="get",result="throttled"} 1`,
		`fanfare_table_calls_total{flow="fanout",op="transact",result="throttled"} 1`, `fanfare_table_calls_total{flow="fanout",op="transact",result="condition"} 1`,
		`fanfare_queue_up{topic="posts"} 1`, `fanfare_queue_up{topic="likes"} 0`,
		"fanfare_like_lag_seconds_count 1", "fanfare_table_write_limit 25", "fanfare_table_hot_keys 20",
		`fanfare_key_fetches_total{result="ok"} 18`, `fanfare_key_fetches_total{result="error"} 19`,
		`fanfare_message_seconds_count{result="done",topic="posts"} 2`, `fanfare_message_seconds_count{result="again",topic="posts"} 1`, `fanfare_message_seconds_count{result="later",topic="posts"} 1`,
		`fanfare_message_age_seconds_bucket{topic="posts",le="30"} 0`, `fanfare_message_age_seconds_count{topic="posts"} 1`,
		`fanfare_dead_letters_total{reason="refused",topic="posts"} 1`, `fanfare_dead_letters_total{reason="attempts",topic="posts"} 1`,
		`fanfare_http_requests_total{method="GET",route="/v1/me",status="200"} 1`,
	} {
		assert.Containsf(t, text, want+"\n", "no line %s", want)
	}
	assert.Regexp(t, `fanfare_build_info\{commit=".+",go="go1.+",version=".+"\} 1\n`, text)
	assert.NotContains(t, text, `,topic="likes"`, "a topic that does not answer has a depth")
}

func TestRegistryRefusesASecondSet(t *testing.T) {
	reg := prometheus.NewRegistry()
	_, err := obs.NewMetrics(reg)
	require.NoError(t, err)
	_, err = obs.NewMetrics(reg)
	assert.Error(t, err, "two sets in one registry")
}

func TestRequestIDsAreSaneOrNew(t *testing.T) {
	for id, want := range map[string]bool{"a-B_9.z": true, "": false, "a b": false, "a\nb": false, strings.Repeat("a", 65): false, "ä": false} {
		assert.Equalf(t, want, obs.ValidRequestID(id), "%q: %v", id, !want)
	}
	if a, b := obs.NewRequestID(), obs.NewRequestID(); a == b || !obs.ValidRequestID(a) {
		t.Errorf("made %q and %q", a, b)
	}
	if id := obs.RequestID(obs.WithRequestID(t.Context(), "r")); id != "r" || obs.RequestID(t.Context()) != "" {
		t.Errorf("carried %q", id)
	}
}
