package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

var historyRounds = flag.Int("history-rounds", 1000, "how many users follow and like for short histories")

// listAuthors is the number of authors whom a user of the histories follows.
const listAuthors = 3

// followingCall is a call about the authors that one user follows.
type followingCall struct {
	do     string // follow, unfollow, relationship or list
	author int
}

// followingModel is a reference model of the authors that one user follows, as bits. The embedded engine
// reads a page of the list at one instant.
func followingModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return uint(0) },
		Step: func(state, input, output any) (bool, any) {
			authors, call := state.(uint), input.(followingCall)
			bit := uint(1) << call.author
			switch call.do {
			case "follow":
				return true, authors | bit
			case "unfollow":
				return true, authors &^ bit
			case "relationship":
				return output == nil || output == (authors&bit != 0), authors
			default:
				return output == nil || output == authors, authors
			}
		},
	}
}

func (c followingCall) make(ctx context.Context, as *client.Client, user string) (any, error) {
	switch c.do {
	case "follow":
		return nil, as.Follow(ctx, listAuthor(c.author))
	case "unfollow":
		return nil, as.Unfollow(ctx, listAuthor(c.author))
	case "relationship":
		r, err := as.Relationship(ctx, user, listAuthor(c.author))
		return r.Following, err
	default:
		list, err := as.Following(user).Page(ctx, "", listAuthors+1)
		var authors uint
		for _, e := range list.Items {
			for i := range listAuthors {
				authors |= uint(btoi(e.UserID == listAuthor(i))) << i
			}
		}
		return authors, err
	}
}

func listAuthor(n int) string { return fmt.Sprintf("listed-%d", n) }

// likeCall is a call about one user's like of one post. A like or an unlike is two calls in the model,
// because the server accepts it before the answer, and its effect follows later.
type likeCall struct {
	do string // accept, effect or liked
	on bool
	n  int // the number of the like or unlike
}

// likes has the accepted calls in order, one byte for each call, and the number of calls that have taken
// effect.
type likes struct {
	accepted string
	effect   int
}

func (c likeCall) mark() string { return string([]byte{byte(2*c.n + btoi(c.on))}) }

// likeModel is a reference model of one like. The effect of a later accepted call replaces the effect of
// an earlier call.
func likeModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return likes{} },
		Step: func(state, input, output any) (bool, any) {
			now, call := state.(likes), input.(likeCall)
			switch call.do {
			case "accept":
				return true, likes{now.accepted + call.mark(), now.effect}
			case "effect":
				at := strings.Index(now.accepted, call.mark())
				return at >= 0, likes{now.accepted, max(now.effect, at+1)}
			default:
				liked := now.effect > 0 && now.accepted[now.effect-1]%2 == 1
				return output == nil || output == liked, now
			}
		},
	}
}

// told has two histories of one user: the history of the authors that the user follows, and the history
// of a like.
type told struct {
	following, like *history
	user, post      string
	as              []*client.Client
}

// play makes each of the user's clients make some calls at the same time.
func (r *told) play(t *testing.T, seed uint64) {
	t.Helper()
	var group sync.WaitGroup
	for caller, as := range r.as {
		random := rand.New(rand.NewPCG(seed, uint64(caller)))
		group.Go(func() {
			for i := range 5 {
				call := followingCall{[]string{"follow", "unfollow", "relationship", "list"}[random.IntN(4)], random.IntN(listAuthors)}
				r.following.call(t, as, caller, call, func() (any, error) { return call.make(t.Context(), as, r.user) })
				like := likeCall{"accept", random.IntN(2) == 0, 5*caller + i}
				if random.IntN(2) == 0 {
					like = likeCall{do: "liked"}
				}
				r.act(t, caller, like)
			}
		})
	}
	group.Wait()
	var began time.Time
	for last, answered := (likeCall{"accept", true, 5 * len(r.as)}), false; !answered; last.n++ { // a kill may take the like before its answer
		began = time.Now().Truncate(time.Millisecond)
		answered = r.act(t, 0, last)
	}
	await(t, "the last like is there", func() bool {
		like, err := r.as[0].LikeOf(t.Context(), r.post, r.user)
		return err == nil && !like.LikedAt.Before(began)
	})
	r.settle()
	r.act(t, 0, likeCall{do: "liked"})
}

func (r *told) act(t *testing.T, caller int, call likeCall) (answered bool) {
	t.Helper()
	as := r.as[caller]
	return r.like.call(t, as, caller, call, func() (any, error) {
		switch {
		case call.do == "liked":
			_, err := as.LikeOf(t.Context(), r.post, r.user)
			if errors.Is(err, client.ErrNotFound) {
				return false, nil
			}
			return true, err
		case call.on:
			return nil, as.Like(t.Context(), r.post)
		default:
			return nil, as.Unlike(t.Context(), r.post)
		}
	})
}

// settle adds the effects of likes to the history. The last call has taken effect, so each answered call
// has taken effect, too.
func (r *told) settle() {
	r.like.mu.Lock()
	defer r.like.mu.Unlock()
	now := int64(time.Since(r.like.began))
	for _, op := range r.like.calls {
		if call := op.Input.(likeCall); call.do == "accept" {
			call.do = "effect"
			r.like.calls = append(r.like.calls, porcupine.Operation{ClientId: op.ClientId, Input: call, Call: op.Call, Return: max(now, op.Return)})
		}
	}
}

// explained reports whether both histories have an order that explains their answers.
func (r *told) explained(t *testing.T) (following, like bool) {
	t.Helper()
	return r.following.linearizable(t, followingModel()), r.like.linearizable(t, likeModel())
}

// playRounds plays the histories of several users, two users at a time. Each user has this number of
// clients.
func playRounds(t *testing.T, addr string, rounds, clients int, beside func()) []*told {
	t.Helper()
	anybody := connect(t, addr)
	var post string
	for i := range listAuthors {
		author := signUp(t, anybody, listAuthor(i))
		made, err := author.CreatePost(t.Context(), client.PostInput{Text: "!"})
		require.NoError(t, err)
		post = made.ID
	}
	all := make([]*told, rounds)
	for i := range all {
		all[i] = &told{following: &history{began: time.Now()}, like: &history{began: time.Now()}, user: fmt.Sprintf("reader-%d", i), post: post}
		as := signUp(t, anybody, all[i].user)
		for range clients {
			all[i].as = append(all[i].as, as)
		}
	}
	var group sync.WaitGroup
	for lane := range 2 {
		group.Go(func() {
			for i := lane; i < len(all) && !t.Failed(); i += 2 {
				all[i].play(t, uint64(i))
			}
		})
	}
	if beside != nil {
		half := all[rounds/2]
		await(t, "half of the rounds", func() bool { return half.like.length() > 0 })
		beside()
	}
	group.Wait()
	return all
}

// TestHistoriesOfTheEmbeddedEngine checks the answers to users with three clients each. It kills the
// process during the calls.
func TestHistoriesOfTheEmbeddedEngine(t *testing.T) {
	t.Parallel()
	rounds := *historyRounds
	if testing.Short() {
		rounds = min(rounds, 20)
	}
	u := newUp(t)
	p := u.start(t)
	for _, r := range playRounds(t, u.http, rounds, 3, func() {
		p.kill(t)
		p = u.start(t)
	}) {
		following, like := r.explained(t)
		assert.Truef(t, following, "no order of the calls explains what %s saw of the follows: %+v", r.user, r.following.calls)
		assert.Truef(t, like, "no order of the calls explains what %s saw of the like: %+v", r.user, r.like.calls)
	}
	p.stop(t)
}

// TestEachWrongAnswerIsFound proves that TestHistoriesOfTheEmbeddedEngine can fail. A user with one
// client never sees an old state of a follow. No user sees an old state of a like after all effects.
func TestEachWrongAnswerIsFound(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	for _, r := range playRounds(t, u.http, 4, 1, nil) {
		following, like := r.explained(t)
		assert.True(t, following && like)
		for i, op := range r.following.calls {
			switch answer := op.Output.(type) {
			case bool:
				r.following.calls[i].Output = !answer
			case uint:
				r.following.calls[i].Output = answer ^ 1
			default:
				continue
			}
			assert.Falsef(t, r.following.linearizable(t, followingModel()), "a wrong answer to %v is not found", op.Input)
			r.following.calls[i].Output = op.Output
		}
		last := &r.like.calls[len(r.like.calls)-1]
		last.Output = last.Output != true
		assert.False(t, r.like.linearizable(t, likeModel()), "a wrong answer about a like is not found")
	}
	p.stop(t)
}
