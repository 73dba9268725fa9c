package replay

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/client/clienttest"
)

// left returns the configuration of a run with away readers.
func left(t *testing.T, fake *clienttest.Server, log *bytes.Buffer) Config {
	t.Helper()
	cfg := config(t, serve(t, fake, nil), log)
	cfg.Graph, cfg.Posts, cfg.Likes = reed(t, 10), 15, 30
	cfg.Away, cfg.Rebuilt = 0.4, time.Nanosecond
	return cfg
}

func TestReadersThatAreAwayAreSkippedAndComplete(t *testing.T) {
	t.Parallel()
	fake := clienttest.New()
	skipped := int64(0) // the server's lock guards skipped
	fake.AlterDelivery = func(_ string, d client.Delivery) client.Delivery { skipped += *d.Skipped; return d }
	early := map[string]bool{}
	fake.AlterHome = func(viewer string, items []client.HomeItem) []client.HomeItem {
		early[viewer] = early[viewer] || skipped == 0 // this read was before the reads of the deliveries
		return items
	}
	var log bytes.Buffer
	cfg := left(t, fake, &log)
	cfg.Journal = filepath.Join(t.TempDir(), "journal")
	report, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	want := expected(t, cfg)
	if !report.Exact() || report.Away != 4 || report.Delivered != want || skipped == 0 {
		t.Errorf("report %+v, want %d deliveries; %d were skipped\n%s", report, want, skipped, log.String())
	}
	away := journaled(t, cfg.Journal, callAway, true)
	require.Len(t, away, 4)
	for _, e := range away {
		assert.Falsef(t, early[e.User], "the home of %s was read before the end", e.User)
	}
	assert.Contains(t, report.String(), "readers that were away 4")
}

func TestFaultsOfAbsencesAreReported(t *testing.T) {
	t.Parallel()
	more := func(n *int64) *int64 { return new(*n + 1) }
	for name, tt := range map[string]struct {
		plant func(s *clienttest.Server)
		limit int
		want  func(r Report) bool
	}{
		"a reader that is away is delivered to": {func(s *clienttest.Server) {
			var v victim
			s.AlterDelivery = func(post string, d client.Delivery) client.Delivery {
				if *d.Skipped > 0 && v.is("delivery", post) {
					d.Delivered, d.Skipped = more(d.Delivered), new(*d.Skipped-1)
				}
				return d
			}
		}, 0, func(r Report) bool { return r.WrongCounts == 1 && r.Missing+r.Unexpected+r.Duplicated == 0 }},
		"a reader that is here is skipped": {func(s *clienttest.Server) {
			var v victim
			s.AlterDelivery = func(post string, d client.Delivery) client.Delivery {
				if v.is("delivery", post) {
					d.Skipped, d.Delivered = more(d.Skipped), new(*d.Delivered-1)
				}
				return d
			}
		}, 0, func(r Report) bool { return r.WrongCounts == 1 && r.Missing+r.Unexpected+r.Duplicated == 0 }},
		"a delivery never ends": {func(s *clienttest.Server) {
			var v victim
			s.AlterDelivery = func(post string, d client.Delivery) client.Delivery {
				if v.is("delivery", post) {
					return client.Delivery{State: client.DeliveryQueued}
				}
				return d
			}
		}, 0, func(r Report) bool { return r.WrongCounts == 1 }},
		"posts are pulled without a limit": {pulled, 0, func(r Report) bool { return r.WrongCounts == r.Posts && r.Pulled == 0 }},
		"posts of small authors are pulled": {pulled, 7, func(r Report) bool {
			return r.WrongCounts > 0 && r.Pulled > 0 && r.Pulled+r.WrongCounts == r.Posts
		}},
		"a home that comes late": {func(s *clienttest.Server) {
			var v victim
			late := true
			s.AlterHome = func(viewer string, items []client.HomeItem) []client.HomeItem {
				if len(items) > 0 && late && s.Returned(viewer) && v.is(viewer, "") {
					late = false
					return items[1:]
				}
				return items
			}
		}, 0, func(r Report) bool { return r.Missing == 1 && r.Unexpected+r.Duplicated+r.WrongCounts == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			fake := clienttest.New()
			tt.plant(fake)
			var log bytes.Buffer
			cfg := left(t, fake, &log)
			cfg.PushLimit, cfg.Rebuilt = tt.limit, 0
			report, err := Run(t.Context(), cfg)
			if err != nil || report.Exact() || !tt.want(report) {
				t.Errorf("report %+v, error %v\n%s", report, err, log.String())
			}
		})
	}
}

// pulled makes the service report that every post is pulled.
func pulled(s *clienttest.Server) {
	s.AlterDelivery = func(_ string, d client.Delivery) client.Delivery {
		d.State = client.DeliveryPulled
		return d
	}
}

func TestPostsOfLargeAuthorsMayBePulled(t *testing.T) {
	t.Parallel()
	fake := clienttest.New()
	pulled(fake)
	cfg := left(t, fake, nil)
	cfg.Log, cfg.PushLimit = nil, 1
	report, err := Run(t.Context(), cfg)
	if err != nil || !report.Exact() || report.Pulled != report.Posts {
		t.Errorf("report %+v, error %v", report, err)
	}
}

// The second read finds a home that was rebuilt wrongly.
func TestTheRebuiltHomesAreReadToo(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{true, false} {
		fake := clienttest.New()
		reads := map[string]int{} // the server's lock guards reads
		fake.AlterHome = func(viewer string, items []client.HomeItem) []client.HomeItem {
			if reads[viewer]++; fake.Returned(viewer) && reads[viewer] > 1 && len(items) > 0 {
				return items[1:]
			}
			return items
		}
		cfg := left(t, fake, nil)
		cfg.Log = nil // the first page has the whole home
		if !again {
			cfg.Rebuilt = 0
		}
		report, err := Run(t.Context(), cfg)
		require.NoError(t, err)
		assert.Equalf(t, again, report.Missing > 0, "report %+v", report)
	}
}

func TestATargetWithoutAbsencesEndsTheRun(t *testing.T) {
	t.Parallel()
	target := serve(t, clienttest.New(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/away") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	cfg := config(t, target, nil)
	cfg.Away = 0.4
	report, err := Run(t.Context(), cfg)
	assert.ErrorContainsf(t, err, "--away", "report %+v", report)
}

// If the call that makes a reader away has no answer, the oracle expects nothing of the deliveries.
func TestAnAbsenceWithoutAnswer(t *testing.T) {
	t.Parallel()
	calls := []entry{
		{Call: callProfile, User: "a", OK: true},
		{Call: callProfile, User: "b", OK: true},
		{Call: callFollow, User: "b", Object: "a", OK: true},
		{Call: callAway, User: "b", OK: true},
	}
	assert.Equal(t, map[string]int{"a": 1}, factsOf(calls).settle(&answers{}).awayFollowers)
	f := factsOf(append(calls, entry{Call: callAway, User: "a"}))
	assert.False(t, f.absencesSure())
	assert.Empty(t, f.settle(&answers{}).away)
}
