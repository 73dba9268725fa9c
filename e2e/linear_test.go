package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"

	"fanfare/client"
)

// history holds the calls of concurrent clients, with the times at which each call began and ended.
type history struct {
	began time.Time

	mu    sync.Mutex
	calls []porcupine.Operation
}

// call makes one call as a user. A call without an answer may take effect at any later time. So after
// such a call, the caller waits until the server answers again.
func (h *history) call(t *testing.T, as *client.Client, caller int, input any, do func() (output any, err error)) (answered bool) {
	t.Helper()
	op := porcupine.Operation{ClientId: caller, Input: input, Call: int64(time.Since(h.began))}
	output, err := do()
	op.Output, op.Return = output, int64(time.Since(h.began))
	if err != nil && !client.Unanswered(err) {
		t.Errorf("%v: %v", input, err)
		return true
	}
	answered = err == nil
	if err != nil {
		op.Output, op.Return = nil, math.MaxInt64
	}
	h.mu.Lock()
	h.calls = append(h.calls, op)
	h.mu.Unlock()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for err != nil && t.Context().Err() == nil {
		<-poll.C
		_, err = as.Me(t.Context())
	}
	return answered
}

// length is the number of calls.
func (h *history) length() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

// linearizable reports whether the answers have an explanation in which each call happened at one instant
// between its begin and its end.
func (h *history) linearizable(t *testing.T, model porcupine.Model) bool {
	t.Helper()
	unanswered := 0
	for _, op := range h.calls {
		if op.Return == math.MaxInt64 {
			unanswered++
		}
	}
	t.Logf("%d calls, %d of them not answered", len(h.calls), unanswered)
	switch porcupine.CheckOperationsTimeout(model, h.calls, 5*time.Minute) {
	case porcupine.Ok:
		return true
	case porcupine.Illegal:
	case porcupine.Unknown:
		t.Fatal("the check did not end within five minutes: make the history smaller")
	}
	return false
}

// edgeCall is a call about one follower of the author.
type edgeCall struct {
	do       string // follow, unfollow, relationship or count
	follower int
}

// followModel is a reference model of the followers of one author, as bits. The answer to a read is an
// int: 1 for a follower who follows, or the number of followers. nil means that the call has no answer.
func followModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return uint(0) },
		Step: func(state, input, output any) (bool, any) {
			followers, call := state.(uint), input.(edgeCall)
			bit := uint(1) << call.follower
			switch call.do {
			case "follow":
				return true, followers | bit
			case "unfollow":
				return true, followers &^ bit
			case "relationship":
				return output == nil || output == btoi(followers&bit != 0), followers
			default:
				return output == nil || output == bits.OnesCount(followers), followers
			}
		},
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// playFollows makes the clients of every follower follow, unfollow and read concurrently. Each client
// does so several times. The first follower has one client, and each further follower has two clients.
// beside, if not nil, runs after some of these calls.
func playFollows(t *testing.T, addr string, seed uint64, times int, beside func()) *history {
	t.Helper()
	const author = "author"
	signUp(t, connect(t, addr), author)
	h := &history{began: time.Now()}
	var group sync.WaitGroup
	caller := 0
	for follower := range 4 {
		name := fmt.Sprintf("follower-%d", follower)
		for range 1 + btoi(follower > 0) {
			as, random, id := signUp(t, connect(t, addr), name), rand.New(rand.NewPCG(seed, uint64(caller))), caller
			caller++
			group.Go(func() {
				for range times {
					call := edgeCall{[]string{"follow", "unfollow", "relationship", "count"}[random.IntN(4)], follower}
					h.call(t, as, id, call, func() (any, error) {
						return call.make(t.Context(), as, name, author)
					})
				}
			})
		}
	}
	if beside != nil {
		await(t, "100 calls", func() bool { return h.length() >= 100 })
		beside()
	}
	group.Wait()
	return h
}

func (c edgeCall) make(ctx context.Context, as *client.Client, follower, author string) (any, error) {
	switch c.do {
	case "follow":
		return nil, as.Follow(ctx, author)
	case "unfollow":
		return nil, as.Unfollow(ctx, author)
	case "relationship":
		r, err := as.Relationship(ctx, follower, author)
		return btoi(r.Following), err
	default:
		u, err := as.User(ctx, author)
		return int(u.Counts.Followers), err
	}
}

func TestFollowsAndTheirCountsAreLinearizable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		u := newUp(t)
		p := u.start(t)
		assert.Truef(t, playFollows(t, u.http, seed, 60, nil).linearizable(t, followModel()),
			"seed %d: the calls have no order that explains their answers", seed)
		p.stop(t)
	}
}

// TestFollowsAreLinearizableOverACrash kills the process during the calls. The effect of an answered call
// survives the crash. A call without an answer takes effect once at most.
func TestFollowsAreLinearizableOverACrash(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	h := playFollows(t, u.http, 1, 60, func() {
		p.kill(t)
		p = u.start(t)
	})
	assert.True(t, h.linearizable(t, followModel()), "the calls have no order that explains their answers")
	p.stop(t)
}

// through puts a proxy in front of u. The proxy may change requests and answers.
func (u *upright) through(t *testing.T, ask func(*http.Request), answer func(*http.Response) error) (addr string) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: u.http})
			if ask != nil {
				ask(p.Out)
			}
		},
		ModifyResponse: answer,
	})
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// staleOnce changes one answer to a read of a path with this suffix: the first time that the answer
// differs from the previous answer, staleOnce repeats the previous answer.
func staleOnce(suffix string) func(*http.Response) error {
	var mu sync.Mutex
	var last string
	planted := false
	return func(resp *http.Response) error {
		if resp.Request.Method != http.MethodGet || !strings.HasSuffix(resp.Request.URL.Path, suffix) {
			return nil
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		fresh := string(body)
		if !planted && last != "" && last != fresh {
			fresh, planted = last, true
		}
		last = fresh
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(fresh)), int64(len(fresh))
		resp.Header.Set("Content-Length", fmt.Sprint(len(fresh)))
		return nil
	}
}

// TestOneStaleAnswerIsFound proves that the tests of follows can fail. The first follower has one client,
// which must never see a state older than the client's own last call.
func TestOneStaleAnswerIsFound(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	addr := u.through(t, nil, staleOnce("/follower-0/relationships/author")) //nolint:bodyclose // the proxy closes the body
	assert.False(t, playFollows(t, addr, 0, 60, nil).linearizable(t, followModel()),
		"a stale relationship was answered once and not found")
	p.stop(t)
}

// keyCall is a call for a post under an Idempotency-Key.
type keyCall struct{ key, text string }

// refused is the answer to a call whose key belongs to a call with another body.
const refused = "refused"

// keyModel is a reference model of the keys. A key belongs to no post, or to a body and a post. The first
// answer with the post reveals the post's id.
func keyModel() porcupine.Model {
	type binding struct{ text, post string }
	return porcupine.Model{
		Partition: func(calls []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, op := range calls {
				key := op.Input.(keyCall).key
				byKey[key] = append(byKey[key], op)
			}
			var parts [][]porcupine.Operation
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return binding{} },
		Step: func(state, input, output any) (bool, any) {
			bound, call := state.(binding), input.(keyCall)
			post, answered := output.(string)
			switch {
			case bound.text != "" && bound.text != call.text:
				return !answered || post == refused, bound
			case !answered:
				return true, binding{call.text, bound.post}
			default:
				return post != refused && (bound.post == "" || bound.post == post), binding{call.text, post}
			}
		},
	}
}

// keys is the number of Idempotency-Keys that playKeys uses.
const keys = 20

// playKeys lets clients of one author post concurrently, with few keys and few bodies.
func playKeys(t *testing.T, addr string, beside func()) (h *history, author *client.Client) {
	t.Helper()
	h = &history{began: time.Now()}
	var group sync.WaitGroup
	for caller := range 6 {
		as, random := signUp(t, connect(t, addr), "author"), rand.New(rand.NewPCG(1, uint64(caller)))
		author = as
		group.Go(func() {
			for round := range 4 * keys {
				// All clients use the same few keys at the same time.
				call := keyCall{fmt.Sprintf("key-%d", round/4), fmt.Sprintf("text %d", random.IntN(2))}
				h.call(t, as, caller, call, func() (any, error) {
					made, err := as.CreatePost(t.Context(), client.PostInput{Text: call.text, IdempotencyKey: call.key})
					if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusUnprocessableEntity {
						return refused, nil
					}
					return made.ID, err
				})
			}
		})
	}
	if beside != nil {
		await(t, "100 calls", func() bool { return h.length() >= 100 })
		beside()
	}
	group.Wait()
	return h, author
}

func TestIdempotencyKeysAreLinearizable(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	h, author := playKeys(t, u.http, nil)
	assert.True(t, h.linearizable(t, keyModel()), "the calls have no order that explains their answers")
	posts, err := author.PostsByUser("author", client.PostRange{}).Collect(t.Context())
	if err != nil || len(posts) != keys {
		t.Errorf("%d posts of %d keys: %v", len(posts), keys, err)
	}
	if me, err := author.Me(t.Context()); err != nil || me.Counts.Posts != keys {
		t.Errorf("%d posts are counted: %v", me.Counts.Posts, err)
	}
	p.stop(t)
}

func TestIdempotencyKeysAreLinearizableOverACrash(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	h, _ := playKeys(t, u.http, func() {
		p.kill(t)
		p = u.start(t)
	})
	assert.True(t, h.linearizable(t, keyModel()), "the calls have no order that explains their answers")
	p.stop(t)
}

// TestOneLostIdempotencyKeyIsFound proves that the tests of keys can fail.
func TestOneLostIdempotencyKeyIsFound(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	var mu sync.Mutex
	calls := 0
	addr := u.through(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/v1/posts" {
			if calls++; calls == 100 {
				r.Header.Del("Idempotency-Key")
			}
		}
	}, nil)
	h, _ := playKeys(t, addr, nil)
	assert.False(t, h.linearizable(t, keyModel()), "a key was lost once and its second post not found")
	p.stop(t)
}
