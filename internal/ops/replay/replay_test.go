package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/client/clienttest"
)

// serve serves the contract of the API. If wrap is not nil, it wraps the handler.
func serve(t *testing.T, fake *clienttest.Server, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	var handler http.Handler = fake
	if wrap != nil {
		handler = wrap(fake)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = nil
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// config returns the configuration of a small run with a short Settle.
func config(t *testing.T, target string, log io.Writer) Config {
	t.Helper()
	return Config{Graph: reed(t, 20), Posts: 30, Likes: 120, Seed: 3, Service: Service{
		Target: target, Concurrency: 8, Settle: 50 * time.Millisecond, Log: log,
	}}
}

// expected counts the deliveries that the load alone requires.
func expected(t *testing.T, cfg Config) int {
	t.Helper()
	l, err := newLoad(cfg)
	require.NoError(t, err)
	n := len(l.authors)
	for _, author := range l.authors {
		for _, e := range cfg.Graph.Edges {
			if e.To == author {
				n++
			}
		}
	}
	return n
}

func TestARightServiceIsFoundExact(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := config(t, serve(t, clienttest.New(), nil), &log)
	report, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	want := expected(t, cfg)
	if !report.Exact() || report.Users != 20 || report.Edges != len(cfg.Graph.Edges) || report.Posts != 30 || report.Likes != 120 ||
		report.ExpectedDeliveries != want || report.Delivered != want {
		t.Errorf("report %+v, want %d deliveries\n%s", report, want, log.String())
	}
	if v := report.VisibleMS; v.P50 <= 0 || v.P50 > v.P99 || v.P99 > v.Max {
		t.Errorf("visible after %+v", v)
	}
	if report.WCU != nil || report.WCUPerLike != nil || strings.Contains(report.String(), "WCU") {
		t.Errorf("units were reported that nobody told: %s", report)
	}
	if again, err := Run(t.Context(), cfg); err != nil || !again.Exact() {
		t.Errorf("a second run on the same data: %+v, error %v", again, err)
	}
}

// The likes of a run have all kinds that the target has. A check compares the counts by kind: if one of the
// reactions has another kind, this is a fault although the number of reactions is right.
func TestReactionsOfEachKindAreCompared(t *testing.T) {
	t.Parallel()
	fake := clienttest.New()
	fake.Reactions = []string{"love", "wow"}
	cfg := config(t, serve(t, fake, nil), nil)
	cfg.Reactions, cfg.Journal = fake.Reactions, filepath.Join(t.TempDir(), "journal")
	report, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	assert.True(t, report.Exact(), "%+v", report)
	assert.Equal(t, 120, report.Likes)
	sum := 0
	for _, kind := range []string{"like", "love", "wow"} {
		assert.Greater(t, report.Reactions[kind], 20, kind)
		sum += report.Reactions[kind]
	}
	assert.Equal(t, 120, sum)
	assert.Contains(t, report.String(), fmt.Sprintf("likes 120; like %d; love %d; wow %d", report.Reactions["like"], report.Reactions["love"], report.Reactions["wow"]))

	loved := journaled(t, cfg.Journal, callLike, true)
	loved = slices.DeleteFunc(loved, func(e entry) bool { return e.Kind != "love" })
	require.NoError(t, as(t, cfg.Service, loved[0].User).React(t.Context(), loved[0].Object, "wow"))
	report, err = Check(t.Context(), cfg.Journal, cfg.Service)
	require.NoError(t, err)
	assert.Positive(t, report.WrongCounts)
	assert.Zero(t, report.Missing+report.Unexpected+report.Duplicated)
}

func TestTheReportKeepsItsShape(t *testing.T) {
	t.Parallel()
	wcu := 3.0
	raw, err := json.Marshal(Report{WCU: &wcu})
	require.NoError(t, err)
	want := `{"users":0,"edges":0,"posts":0,"likes":0,"away":0,"pulled":0,"expected_deliveries":0,"delivered":0,"missing":0,"unexpected":0,"duplicated":0,` +
		`"wrong_counts":0,"visible_ms":{"p50":0,"p99":0,"max":0},"deliveries_per_s":0,"wcu":3,"rcu":null,"wcu_per_delivery":null,"wcu_per_like":null,"wcu_by_flow":null,"rcu_by_flow":null,"skipped":null,"wcu_returns":null,"seconds":0}`
	assert.Equal(t, want, string(raw))
}

// as returns a client of a user.
func as(t *testing.T, s Service, user string) *client.Client {
	t.Helper()
	sessions, err := newSessions(s)
	require.NoError(t, err)
	t.Cleanup(sessions.close)
	return sessions.of(user)
}

// victim is the first pair of a viewer and a post that a fault may change.
type victim struct{ viewer, post string }

func (v *victim) is(viewer, post string) bool {
	if v.viewer == "" {
		v.viewer, v.post = viewer, post
	}
	return v.viewer == viewer && v.post == post
}

func TestEachPlantedFaultIsReported(t *testing.T) {
	t.Parallel()
	others := func(viewer string, items []client.HomeItem) int {
		return slices.IndexFunc(items, func(i client.HomeItem) bool { return i.Author.ID != viewer })
	}
	for name, tt := range map[string]struct {
		plant func(s *clienttest.Server)
		want  func(r Report) bool
	}{
		"a delivery dropped": {func(s *clienttest.Server) {
			var v victim
			s.AlterHome = func(viewer string, items []client.HomeItem) []client.HomeItem {
				if i := others(viewer, items); v.viewer == "" && i >= 0 {
					v.is(viewer, items[i].Post.ID)
				}
				return slices.DeleteFunc(items, func(i client.HomeItem) bool { return v.is(viewer, i.Post.ID) })
			}
		}, func(r Report) bool {
			return r.Missing == 1 && r.Delivered == r.ExpectedDeliveries-1 && r.Unexpected+r.Duplicated+r.WrongCounts == 0
		}},
		"a delivery twice": {func(s *clienttest.Server) {
			var v victim
			s.AlterHome = func(viewer string, items []client.HomeItem) []client.HomeItem {
				for i, item := range items {
					if v.is(viewer, item.Post.ID) {
						return slices.Insert(items, i, item)
					}
				}
				return items
			}
		}, func(r Report) bool { return r.Duplicated == 1 && r.Missing+r.Unexpected+r.WrongCounts == 0 }},
		"a stranger's post": {func(s *clienttest.Server) {
			var v victim
			s.AlterHome = func(viewer string, items []client.HomeItem) []client.HomeItem {
				if v.is(viewer, "") {
					return append(items, client.HomeItem{Post: client.Post{ID: "00000000000000000000000000", AuthorID: "x"}})
				}
				return items
			}
		}, func(r Report) bool { return r.Unexpected == 1 && r.Missing+r.Duplicated+r.WrongCounts == 0 }},
		"a like count off by one": {func(s *clienttest.Server) {
			var v victim
			s.AlterCount = func(post string, n int64) int64 {
				if v.is("count", post) {
					return n + 1
				}
				return n
			}
		}, func(r Report) bool { return r.WrongCounts >= 2 && r.Missing+r.Unexpected+r.Duplicated == 0 }},
		"a follower count off by one": {func(s *clienttest.Server) {
			var v victim
			s.AlterUser = func(u client.User) client.User {
				if v.is(u.ID, "") {
					u.Counts.Followers--
				}
				return u
			}
		}, func(r Report) bool { return r.WrongCounts == 1 && r.Missing+r.Unexpected+r.Duplicated == 0 }},
		"a post lost altogether": {func(s *clienttest.Server) {
			var v victim
			s.AlterHome = func(_ string, items []client.HomeItem) []client.HomeItem {
				return slices.DeleteFunc(items, func(i client.HomeItem) bool { return v.is("all", i.Post.ID) })
			}
			s.AlterUser = func(u client.User) client.User { u.Counts.Posts = max(0, u.Counts.Posts-1); return u }
		}, func(r Report) bool { return r.Missing >= 2 && r.WrongCounts >= 2 && r.Unexpected+r.Duplicated == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			fake := clienttest.New()
			tt.plant(fake)
			var log bytes.Buffer
			report, err := Run(t.Context(), config(t, serve(t, fake, nil), &log))
			if err != nil || report.Exact() || !tt.want(report) {
				t.Errorf("report %+v, error %v\n%s", report, err, log.String())
			}
		})
	}
}

// A post that must never show remains a fault, even if later readings do not have the post.
// The test makes a check, because during a run a watcher of a home might read the
// stranger's post first.
func TestAStrangersPostShownOnceIsReported(t *testing.T) {
	t.Parallel()
	fake := clienttest.New()
	cfg := config(t, serve(t, fake, nil), nil)
	cfg.Journal = filepath.Join(t.TempDir(), "journal")
	var checking atomic.Bool
	var v victim
	reads := 0 // the server's lock guards reads and v
	fake.AlterHome = func(viewer string, items []client.HomeItem) []client.HomeItem {
		if !checking.Load() || len(items) == 0 || !v.is(viewer, "") {
			return items
		}
		items = items[:len(items)-1] // one post is always missing, so the home is read again
		if reads++; reads == 1 {
			return append(items, client.HomeItem{Post: client.Post{ID: "00000000000000000000000000"}})
		}
		return items
	}
	if report, err := Run(t.Context(), cfg); err != nil || !report.Exact() {
		t.Fatalf("report %+v, error %v", report, err)
	}
	checking.Store(true)
	report, err := Check(t.Context(), cfg.Journal, cfg.Service)
	if err != nil || report.Unexpected != 1 || report.Missing != 1 || report.Duplicated+report.WrongCounts != 0 || reads < 2 {
		t.Errorf("report %+v after %d reads of the home, error %v", report, reads, err)
	}
}

func TestLateDeliveriesAreAwaited(t *testing.T) {
	t.Parallel()
	fake := clienttest.New()
	reads := map[string]int{} // the server's lock guards reads
	fake.AlterHome = func(viewer string, items []client.HomeItem) []client.HomeItem {
		if reads[viewer]++; reads[viewer] <= 2 && len(items) > 0 {
			return items[1:]
		}
		return items
	}
	counts := 0
	fake.AlterCount = func(_ string, n int64) int64 { counts++; return n - int64(max(0, 100-counts)) }
	cfg := config(t, serve(t, fake, nil), nil)
	cfg.Settle = 5 * time.Minute
	if report, err := Run(t.Context(), cfg); err != nil || !report.Exact() {
		t.Errorf("report %+v, error %v", report, err)
	}
}

// changing reports whether a run records a request in its journal.
func changing(r *http.Request) bool {
	return r.Method != http.MethodGet && r.URL.Path != "/v1/dev/token"
}

func TestLostAnswersAreRepeatedWithoutHarm(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	target := serve(t, clienttest.New(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if changing(r) && calls.Add(1)%20 == 0 {
				next.ServeHTTP(httptest.NewRecorder(), r) // the call has its effect, but the answer is lost
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	if report, err := Run(t.Context(), config(t, target, nil)); err != nil || !report.Exact() {
		t.Errorf("report %+v, error %v", report, err)
	}
}

// dying is a service that stops answering after some calls. Half of the later calls still have their effect.
type dying struct {
	next  http.Handler
	after int64
	calls atomic.Int64
	up    atomic.Bool
}

func (d *dying) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.up.Load() || !changing(r) {
		d.next.ServeHTTP(w, r)
		return
	}
	n := d.calls.Add(1)
	if n <= d.after {
		d.next.ServeHTTP(w, r)
		return
	}
	if n%2 == 0 {
		d.next.ServeHTTP(httptest.NewRecorder(), r)
	}
	panic(http.ErrAbortHandler)
}

// interrupted makes a run against a service that dies after some calls, and then repairs the service.
func interrupted(t *testing.T, after int) (fake *clienttest.Server, journal string, service Service) {
	t.Helper()
	fake = clienttest.New()
	d := &dying{next: fake, after: int64(after)}
	cfg := config(t, serve(t, fake, func(http.Handler) http.Handler { return d }), nil)
	cfg.Journal, cfg.Attempts = filepath.Join(t.TempDir(), "journal"), 1
	report, err := Run(t.Context(), cfg)
	require.ErrorContainsf(t, err, "--check "+cfg.Journal, "a run against a dead service: %+v", report)
	d.up.Store(true)
	return fake, cfg.Journal, cfg.Service
}

func TestAJournalOfAnInterruptedRunVerifies(t *testing.T) {
	t.Parallel()
	edges := len(reed(t, 20).Edges)
	for name, after := range map[string]int{
		"in the profiles": 5, "in the follows": 20 + edges/2, "in posts and likes": 20 + edges + 60, "at once": 0,
	} {
		t.Run(name, func(t *testing.T) {
			_, journal, service := interrupted(t, after)
			var log bytes.Buffer
			service.Log = &log
			report, err := Check(t.Context(), journal, service)
			if err != nil || !report.Exact() {
				t.Errorf("report %+v, error %v\n%s", report, err, log.String())
			}
			if after > 20+edges && (report.Posts == 0 || report.Likes == 0 || report.Edges != edges) {
				t.Errorf("hardly anything was verified: %+v", report)
			}
		})
	}
}

// journaled returns the calls of one kind in a journal: the answered calls if ok, else the unanswered calls.
func journaled(t *testing.T, journal, call string, ok bool) []entry {
	t.Helper()
	calls, err := readJournal(journal)
	require.NoError(t, err)
	return slices.DeleteFunc(calls, func(e entry) bool { return e.Call != call || e.OK != ok })
}

func TestACheckFindsTheEffectsOfACrash(t *testing.T) {
	t.Parallel()
	edges := len(reed(t, 20).Edges)
	for name, tt := range map[string]struct {
		harm func(t *testing.T, journal string, s Service)
		want func(r Report) bool
	}{
		"an answered post is gone": {func(t *testing.T, journal string, s Service) {
			t.Helper()
			post := journaled(t, journal, callPost, true)[0]
			require.NoError(t, as(t, s, post.User).DeletePost(t.Context(), post.ID))
		}, func(r Report) bool { return r.Missing > 0 && r.WrongCounts > 0 }},
		"an answered follow is gone": {func(t *testing.T, journal string, s Service) {
			t.Helper()
			follow := journaled(t, journal, callFollow, true)[0]
			require.NoError(t, as(t, s, follow.User).Unfollow(t.Context(), follow.Object))
		}, func(r Report) bool { return r.WrongCounts == 2 }},
		"an answered like is gone": {func(t *testing.T, journal string, s Service) {
			t.Helper()
			like := journaled(t, journal, callLike, true)[0]
			require.NoError(t, as(t, s, like.User).Unlike(t.Context(), like.Object))
		}, func(r Report) bool { return r.WrongCounts > 0 && r.Missing == 0 }},
		"a like that nobody made": {func(t *testing.T, journal string, s Service) {
			t.Helper()
			liked := map[string]bool{}
			for _, ok := range []bool{true, false} {
				for _, e := range journaled(t, journal, callLike, ok) {
					liked[e.User+e.Object] = true
				}
			}
			post := journaled(t, journal, callPost, true)[0].ID
			for _, e := range journaled(t, journal, callProfile, true) {
				if !liked[e.User+post] {
					require.NoError(t, as(t, s, e.User).Like(t.Context(), post))
					return
				}
			}
			t.Fatal("everybody liked it")
		}, func(r Report) bool { return r.WrongCounts > 0 && r.Missing == 0 }},
		"an open post was made twice": {func(t *testing.T, journal string, s Service) {
			t.Helper()
			open := journaled(t, journal, callPost, false)
			require.NotEmpty(t, open, "no post is open")
			for range 2 {
				_, err := as(t, s, open[0].User).CreatePost(t.Context(), client.PostInput{Text: open[0].Object})
				require.NoError(t, err)
			}
		}, func(r Report) bool { return r.Duplicated > 0 && r.Missing == 0 && r.Unexpected == 0 }},
		"a post that nobody made": {func(t *testing.T, journal string, s Service) {
			t.Helper()
			user := journaled(t, journal, callProfile, true)[0].User
			_, err := as(t, s, user).CreatePost(t.Context(), client.PostInput{Text: "spam"})
			require.NoError(t, err)
		}, func(r Report) bool { return r.Unexpected > 1 && r.Missing == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			_, journal, service := interruptedAtAPost(t, 20+edges+40)
			tt.harm(t, journal, service)
			report, err := Check(t.Context(), journal, service)
			if err != nil || report.Exact() || !tt.want(report) {
				t.Errorf("report %+v, error %v", report, err)
			}
		})
	}
}

// interruptedAtAPost repeats interrupted until at least one post has no answer.
func interruptedAtAPost(t *testing.T, after int) (fake *clienttest.Server, journal string, service Service) {
	t.Helper()
	for later := range 40 {
		fake, journal, service = interrupted(t, after+later)
		if len(journaled(t, journal, callPost, false)) > 0 {
			return fake, journal, service
		}
	}
	t.Fatal("no post was in flight in 40 interrupted runs")
	return nil, "", Service{}
}

func TestARefusedCallEndsTheRun(t *testing.T) {
	t.Parallel()
	target := serve(t, clienttest.New(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == "/v1/posts" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	report, err := Run(t.Context(), config(t, target, nil))
	assert.ErrorContainsf(t, err, "403", "report %+v", report)
}

// If the table was down, an answered post may appear only later.
func TestALikeWaitsForItsPost(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries := make(map[string]int)
	target := serve(t, clienttest.New(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			tries[r.URL.Path]++
			early := strings.HasSuffix(r.URL.Path, "/like") && tries[r.URL.Path] <= 2
			mu.Unlock()
			if early {
				http.NotFound(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if report, err := Run(t.Context(), config(t, target, nil)); err != nil || !report.Exact() || report.Likes != 120 {
		t.Errorf("report %+v, error %v", report, err)
	}
}

func TestATargetWithoutDevelopmentTokensIsNamed(t *testing.T) {
	t.Parallel()
	target := serve(t, clienttest.New(), func(http.Handler) http.Handler { return http.NotFoundHandler() })
	_, err := Run(t.Context(), config(t, target, nil))
	assert.ErrorContains(t, err, "FANFARE_AUTH=dev")
}

func TestAnInterruptEndsTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	target := serve(t, clienttest.New(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/posts" {
				once.Do(cancel)
			}
			next.ServeHTTP(w, r)
		})
	})
	report, err := Run(ctx, config(t, target, nil))
	assert.Errorf(t, err, "report %+v of a run that was interrupted", report)
}

func TestUnitsAndDepthsComeFromTheAdminAddresses(t *testing.T) {
	t.Parallel()
	fake := clienttest.New()
	var posts, likes atomic.Int64
	target := serve(t, fake, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost && r.URL.Path == "/v1/posts":
				posts.Add(1)
			case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/like"):
				likes.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	var depth atomic.Int64
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if posts.Load() > 0 && depth.Load() < 5 {
			depth.Add(1)
		}
		fmt.Fprintf(w, "# TYPE %[1]s counter\n%[1]s{flow=\"api\",op=\"put\",kind=\"write\"} %[2]d\n", unitsMetric, 1000)
		fmt.Fprintf(w, "%s{flow=\"fanout\",op=\"batch\",kind=\"write\"} %d\n", unitsMetric, 500+60*posts.Load())
		fmt.Fprintf(w, "%s{flow=\"likes\",op=\"put\",kind=\"write\"} %d\n", unitsMetric, 2*likes.Load())
		fmt.Fprintf(w, "%s{flow=\"fanout\",op=\"query\",kind=\"read\"} %d\n", unitsMetric, 7+posts.Load())
		fmt.Fprintf(w, "# TYPE %[1]s gauge\n%[1]s{topic=\"posts\",state=\"ready\"} %[2]d\n", depthMetric, depth.Load()%5)
		fmt.Fprintf(w, "%[1]s{topic=\"notices\",state=\"ready\"} 0\n%[1]s{topic=\"chunks\",state=\"ready\"} 0\n%[1]s{topic=\"likes\",state=\"ready\"} 0\n%[1]s{topic=\"backfills\",state=\"ready\"} 0\n", depthMetric)
		fmt.Fprintf(w, "%s{topic=\"posts\",state=\"dead\"} %d\n", depthMetric, min(1, posts.Load()))
	}))
	defer admin.Close()
	var log bytes.Buffer
	cfg := config(t, target, &log)
	cfg.Admin = []string{admin.Listener.Addr().String()}
	report, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	perDelivery := round(60 * 30 / float64(report.Delivered-30))
	if *report.WCU != 60*30+2*120 || *report.RCU != 30 || *report.WCUPerLike != 2 || *report.WCUPerDelivery != perDelivery {
		t.Errorf("units %v %v %v %v", *report.WCU, *report.RCU, *report.WCUPerLike, *report.WCUPerDelivery)
	}
	if !strings.Contains(log.String(), "1 messages were dead-lettered") || depth.Load() != 5 {
		t.Errorf("read back at depth %d, log:\n%s", depth.Load()%5, log.String())
	}
	cfg.Admin = []string{"127.0.0.1:1"}
	_, err = Run(t.Context(), cfg)
	assert.ErrorContains(t, err, "127.0.0.1:1", "an admin address where nobody answers")
}
