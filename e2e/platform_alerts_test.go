//go:build e2e && platform

package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/id"
	"fanfare/internal/porttest"
	"fanfare/internal/queue"
	"fanfare/internal/queue/embedded"
	"fanfare/messages"
)

// trial is a situation of a deployment, and the alerts of the situation.
type trial struct {
	name string
	// begin changes a healthy deployment so that the situation begins.
	begin func(t *testing.T, d *observed)
	// must are the alerts that have to fire. may are the alerts that may fire in the same outage, later
	// or by chance.
	must, may []string
}

const (
	// soundFor is the time for which a deployment is watched before its situation begins, and watched is
	// the time for which it is watched afterwards. Both are times of the rules. A rule looks back 20
	// minutes.
	soundFor, watched = 25 * time.Minute, 25 * time.Minute
	// demoFor is the time for which the demo is watched: the auditor's rule looks back an hour.
	demoFor = 70 * time.Minute
)

const (
	// purgeWait is the time for which a deletion waits by design (fanout.purgeAfter).
	purgeWait = messages.MaxAhead + time.Minute
	// purges is the number of deletions that become due during the watch of the demo, and purgeEvery is
	// the time between two of these deletions.
	purges, purgeEvery = 40, 500 * time.Millisecond
)

func trials() []trial {
	return []trial{
		{
			// A canary that fails deletes its post. The message of a deleted post ends without retries.
			"fan-out denied", func(_ *testing.T, d *observed) { d.fanout.set(denied) },
			[]string{"FanfareMessagesFail", "FanfareCanaryFails"}, []string{"FanfareQueueStuck", "FanfareMessageOverdue"},
		}, {
			"fan-out gone", func(t *testing.T, d *observed) { t.Helper(); d.members[1].kill(t) },
			[]string{"FanfareQueueStuck", "FanfareCanaryFails"}, nil,
		}, {
			"queue away", func(_ *testing.T, d *observed) {
				for _, p := range []*disturbance{d.api, d.fanout, d.likes, d.canary} {
					p.set(queueAway)
				}
			},
			[]string{"FanfareQueueAway", "FanfareServerErrors", "FanfareCanaryFails"}, nil,
		}, {
			"table throttles", func(_ *testing.T, d *observed) {
				var writes atomic.Int64
				throttled := func(rw http.ResponseWriter, r *http.Request) bool {
					return isWrite(r) && writes.Add(1)%3 == 0 && refuse(rw, "ProvisionedThroughputExceededException", "too many writes")
				}
				d.fanout.set(throttled)
				d.likes.set(throttled)
			},
			[]string{"FanfareTableThrottles"}, nil,
		}, {
			"aggregator stuck", func(_ *testing.T, d *observed) { d.likes.set(tableHangs) },
			[]string{"FanfareQueueStuck", "FanfareMessageOverdue", "FanfareCanaryFails"}, []string{"FanfareMessagesFail"},
		}, {
			"aggregator frozen", func(t *testing.T, d *observed) { t.Helper(); d.members[2].signal(t, syscall.SIGSTOP) },
			[]string{"FanfareQueueStuck", "FanfareCanaryFails"}, nil,
		}, {
			"canary dead", func(t *testing.T, d *observed) { t.Helper(); d.members[3].kill(t) },
			[]string{"FanfareCanaryFails"}, nil,
		},
	}
}

// TestPlatformAlertsFireInTheirSituationAlone runs each situation on its own deployment, with traffic and
// a real Prometheus. It prints the time until each alert fires, in the time of the rules.
func TestPlatformAlertsFireInTheirSituationAlone(t *testing.T) {
	var mu sync.Mutex
	fired := map[string]map[string]time.Duration{}
	t.Run("situations", func(t *testing.T) {
		t.Run("demo", func(t *testing.T) {
			t.Parallel()
			watchDemo(t)
		})
		for _, s := range trials() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				alerts := s.watch(t)
				mu.Lock()
				defer mu.Unlock()
				fired[s.name] = alerts
			})
		}
	})
	t.Log(tableOf(t, fired))
}

// watch returns the alerts that fired in a situation, with the time until each alert fired.
func (s trial) watch(t *testing.T) map[string]time.Duration {
	t.Helper()
	d := newObserved(t)
	d.uses(t)
	p := newPrometheus(t, d.admins()...)
	p.passes(t, soundFor)
	require.Empty(t, p.alerts(t, time.Time{}, ""), "pending or firing before the situation begins")

	s.begin(t, d)
	began := time.Now()
	defer func() {
		if t.Failed() {
			t.Log("pending or firing: ", p.alerts(t, began, ""), "; firing: ", p.alerts(t, began, "firing"))
		}
	}()
	await(t, fmt.Sprint(s.must, " fire"), func() bool {
		fired := p.alerts(t, began, "firing")
		return !slices.ContainsFunc(s.must, func(name string) bool { _, ok := fired[name]; return !ok })
	})
	p.passes(t, soundFor+watched)
	fired := p.alerts(t, began, "firing")
	for name, after := range fired {
		assert.Contains(t, slices.Concat(s.must, s.may), name, "fired after %s", after)
	}
	return fired
}

// watchDemo fails if a demo with its canary, its auditor and deletions raises an alert.
//
// A deletion waits for six minutes. So the test publishes the events of deletions before the demo begins.
// Each event equals an event of the API, but is six minutes older, so the deletions become due during the
// demo.
func watchDemo(t *testing.T) {
	t.Helper()
	u, p := newDemo(t)
	ada := u.as(t, "ada")
	var deleted []string
	for i := range purges {
		post, err := ada.CreatePost(t.Context(), client.PostInput{Text: fmt.Sprint("Deleted soon, number ", i)})
		require.NoError(t, err)
		require.NoError(t, ada.DeletePost(t.Context(), post.ID))
		deleted = append(deleted, post.ID)
	}
	p.stop(t)
	u.askedToDelete(t, "ada", deleted)
	p = start(t, append(u.env, "FANFARE_CANARY=on", "FANFARE_AUDIT=on"), "fanfare", "up", "--demo", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
	p.ready(t, u.admin)
	seen := newPrometheus(t, u.admin)
	seen.passes(t, demoFor)
	raised := seen.alerts(t, time.Time{}, "")
	if seen.number(t, "max(max_over_time(fanfare_disk_nearly_full[1d]))") > 0 {
		delete(raised, "FanfareDiskNearlyFull") // the disk of this machine is nearly full
	}
	assert.Empty(t, raised, "pending or firing on a sound demo")
	assert.GreaterOrEqual(t, seen.number(t, `fanfare_message_age_seconds_count{topic="backfills"}`), float64(purges), "deletions that fell due")
	p.stop(t)
}

// askedToDelete puts the events of deletions into the queue of a stopped server. The first deletion is due in
// five seconds.
func (u *upright) askedToDelete(t *testing.T, author string, posts []string) {
	t.Helper()
	broker, err := embedded.Create(filepath.Join(u.data, "queue"), embedded.Options{})
	require.NoError(t, err)
	first := time.Now().Add(5*time.Second - purgeWait)
	msgs := make([]*message.Message, len(posts))
	for i, post := range posts {
		asked := first.Add(time.Duration(i) * purgeEvery)
		event, err := id.NewGenerator(func() time.Time { return asked }).New()
		require.NoError(t, err)
		msgs[i], err = queue.Message(t.Context(), &messages.PostDeleted{Header: messages.Header{EventID: event, Time: asked.UTC()}, PostID: post, AuthorID: author})
		require.NoError(t, err)
	}
	require.NoError(t, broker.Publish(queue.TopicBackfills, msgs...))
	require.NoError(t, broker.Close())
}

// tableOf returns the table of alerts and situations.
func tableOf(t *testing.T, fired map[string]map[string]time.Duration) string {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	names := slices.Sorted(maps.Keys(fired))
	fmt.Fprintf(w, "\nalert\tdemo\t%s\n", strings.Join(names, "\t"))
	for _, alert := range alertNames(t) {
		fmt.Fprintf(w, "%s\t-", alert)
		for _, name := range names {
			cell := "-"
			if after, ok := fired[name][alert]; ok {
				cell = after.Round(time.Minute / 2).String()
			}
			fmt.Fprintf(w, "\t%s", cell)
		}
		fmt.Fprintln(w)
	}
	require.NoError(t, w.Flush())
	return text.String()
}

// observed is a deployment on AWS with four processes: api, fanout, likeagg, and an api with the canary.
// Between each process and AWS there is a disturbance.
type observed struct {
	*cluster
	api, fanout, likes, canary *disturbance
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	d := &observed{cluster: emptyCluster(t), api: newDisturbance(t), fanout: newDisturbance(t), likes: newDisturbance(t), canary: newDisturbance(t)}
	d.add(t, throughProxy(d.api.url), "api")
	d.add(t, throughProxy(d.fanout.url), "fanout")
	d.add(t, throughProxy(d.likes.url), "likeagg")
	d.add(t, append(throughProxy(d.canary.url), "FANFARE_CANARY=on", "FANFARE_HTTP_ADDR="+porttest.Free(t)), "api")
	return d
}

func (d *observed) admins() (all []string) {
	for _, m := range d.members {
		all = append(all, m.admin)
	}
	return all
}

// uses lets two users post, read and like until the test ends. Their calls may fail.
func (d *observed) uses(t *testing.T) {
	t.Helper()
	api, err := client.New("http://" + d.http)
	require.NoError(t, err)
	as := func(user string) *client.Client {
		token, err := api.DevToken(t.Context(), user, time.Hour)
		require.NoError(t, err)
		c := api.AsToken(token.Token)
		_, err = c.PutMe(t.Context(), client.ProfileInput{Name: user})
		require.NoError(t, err)
		return c
	}
	ann, bob := as("ann"), as("bob")
	require.NoError(t, bob.Follow(t.Context(), "ann"))
	ctx := t.Context() // the context ends before the cleanups run
	var used sync.WaitGroup
	used.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			post, err := ann.CreatePost(ctx, client.PostInput{Text: "hello"})
			if err == nil {
				_ = bob.Like(ctx, post.ID) // a like fails during an outage
			}
			_, _ = bob.Home(client.Push).Page(ctx, "", 20) // a read fails during an outage
		}
	})
	t.Cleanup(used.Wait)
}

// isWrite reports whether a request writes to the table.
func isWrite(r *http.Request) bool {
	target := r.Header.Get("X-Amz-Target")
	return strings.HasPrefix(target, "DynamoDB_") && slices.ContainsFunc([]string{".BatchWriteItem", ".PutItem", ".UpdateItem", ".DeleteItem", ".TransactWriteItems"},
		func(operation string) bool { return strings.HasSuffix(target, operation) })
}

// refuse answers with an error of DynamoDB.
func refuse(rw http.ResponseWriter, code, problem string) bool {
	rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
	rw.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(rw, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":%q}`, code, problem)
	return true
}

func denied(rw http.ResponseWriter, r *http.Request) bool {
	return isWrite(r) && refuse(rw, "AccessDeniedException", "User: fanout is not authorized to perform this")
}

func queueAway(rw http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.") {
		return false
	}
	rw.WriteHeader(http.StatusServiceUnavailable)
	return true
}

func tableHangs(_ http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_") {
		return false
	}
	_, _ = io.Copy(io.Discard, r.Body) // the server notices a client that leaves only after it has read the body
	<-r.Context().Done()
	return true
}
