//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/porttest"
)

// tripwire is a proxy between a process and AWS. It kills the process at the next call of an operation:
// before it forwards the call, or after the call took effect but before the process has the answer.
type tripwire struct {
	url string

	mu      sync.Mutex
	victim  *process // nil while the wire is not set
	prefix  string   // prefix of the X-Amz-Target
	after   bool
	reached chan struct{} // closed when AWS has answered the first PutItem
	tripped bool
}

func newTripwire(t *testing.T) *tripwire {
	t.Helper()
	w := &tripwire{}
	w.url = startAWSProxy(t,
		func(_ http.ResponseWriter, r *http.Request) bool {
			return w.trip(t, r.Header.Get("X-Amz-Target"), false)
		},
		func(resp *http.Response) error {
			operation := resp.Request.Header.Get("X-Amz-Target")
			w.trip(t, operation, true)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.reached != nil && strings.HasSuffix(operation, ".PutItem") {
				close(w.reached)
				w.reached = nil
			}
			return nil
		})
	return w
}

// set makes the next call of an operation kill victim. It returns a channel that is closed
// when AWS has answered the first PutItem.
func (w *tripwire) set(victim *process, prefix string, after bool) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.victim, w.prefix, w.after, w.tripped = victim, prefix, after, false
	reached := make(chan struct{})
	w.reached = reached
	return reached
}

// trip kills the victim at the call for which the wire is set, and reports whether the victim is dead.
func (w *tripwire) trip(t *testing.T, operation string, after bool) bool {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.victim != nil && after == w.after && strings.HasPrefix(operation, w.prefix) {
		w.victim.kill(t)
		w.victim, w.tripped = nil, true
		if w.reached != nil {
			close(w.reached)
			w.reached = nil
		}
	}
	return w.tripped
}

// TestOneIdempotencyKeyMakesOnePostWhenAProcessDies sends 20 calls with one key to two processes at once.
// It kills one process at each step of the post's creation.
func TestOneIdempotencyKeyMakesOnePostWhenAProcessDies(t *testing.T) {
	t.Parallel()
	const calls = 20
	env := emptyCluster(t).env
	wire := newTripwire(t)
	newMember := func(kind string, more ...string) (m *member, http string) {
		m, http = &member{kind: kind, admin: porttest.Free(t)}, porttest.Free(t)
		m.env = append(append(append([]string(nil), env...), more...), "FANFARE_HTTP_ADDR="+http, "FANFARE_ADMIN_ADDR="+m.admin)
		m.start(t)
		return m, http
	}
	victim, victimAddr := newMember("api", throughProxy(wire.url)...)
	survivor, survivorAddr := newMember("api")
	fanout, _ := newMember("fanout")
	for _, m := range []*member{victim, survivor, fanout} {
		m.ready(t, m.admin)
	}
	atVictim, atSurvivor := connect(t, victimAddr), connect(t, survivorAddr)
	reader := signUp(t, atSurvivor, "reader")
	var want []string
	for _, round := range []struct {
		name, operation string
		after           bool
	}{
		{"before_the_key_is_bound", "DynamoDB_20120810.PutItem", false},
		{"after_the_key_is_bound", "DynamoDB_20120810.PutItem", true},
		{"before_the_event_is_sent", "AmazonSQS.SendMessage", false},
		{"after_the_event_is_sent", "AmazonSQS.SendMessage", true},
		{"before_the_post_is_written", "DynamoDB_20120810.TransactWriteItems", false},
		{"after_the_post_is_written", "DynamoDB_20120810.TransactWriteItems", true},
	} {
		t.Run(round.name, func(t *testing.T) {
			author := strings.ReplaceAll(round.name, "_", "-")
			onSurvivor := signUp(t, atSurvivor, author)
			require.NoError(t, reader.Follow(t.Context(), author))
			issued, err := atVictim.DevToken(t.Context(), author, 0)
			require.NoError(t, err)
			onVictim := atVictim.AsToken(issued.Token)
			post := client.PostInput{Text: "once", IdempotencyKey: "key-of-" + author}

			reached := wire.set(victim.process, round.operation, round.after)
			ids := make([]string, calls)
			errs := make([]error, calls)
			var group sync.WaitGroup
			for i := range calls {
				group.Go(func() {
					at := onVictim
					if i%2 == 1 { // the victim begins first, so it reaches the step at which it dies
						at = onSurvivor
						<-reached
					}
					made, err := at.CreatePost(t.Context(), post)
					ids[i], errs[i] = made.ID, err
				})
			}
			group.Wait()
			await(t, "the end of the process at "+round.operation, func() bool { return !victim.running() })
			answered := map[string]int{}
			for i := range calls {
				switch {
				case errs[i] == nil:
					answered[ids[i]]++
				case i%2 == 1:
					t.Errorf("the surviving process failed: %v", errs[i])
				case !client.Unanswered(errs[i]):
					t.Errorf("the killed process answered %v", errs[i])
				default: // a caller without an answer retries
					made, err := onSurvivor.CreatePost(t.Context(), post)
					assert.NoError(t, err)
					answered[made.ID]++
				}
			}
			require.Len(t, answered, 1, "posts by number of calls that they answered")
			posts, err := onSurvivor.PostsByUser(author, client.PostRange{}).Collect(t.Context())
			if err != nil || len(posts) != 1 || answered[posts[0].ID] != calls {
				t.Fatalf("posts %v, answered %v: %v", posts, answered, err)
			}
			if me, err := onSurvivor.Me(t.Context()); err != nil || me.Counts.Posts != 1 {
				t.Errorf("posts are counted as %d: %v", me.Counts.Posts, err)
			}
			want = append([]string{posts[0].ID}, want...)
			await(t, "the reader's home has each post once", func() bool {
				items, err := reader.Home(client.Push).Collect(t.Context())
				require.NoError(t, err)
				var have []string
				for _, item := range items {
					have = append(have, item.Post.ID)
				}
				require.LessOrEqualf(t, len(have), len(want), "home %v, wanted %v", have, want)
				return fmt.Sprint(have) == fmt.Sprint(want)
			})
		})
		wire.set(nil, "", false)
		victim.start(t)
		victim.ready(t, victim.admin)
	}
	for _, m := range []*member{victim, survivor, fanout} {
		m.stop(t)
	}
}
