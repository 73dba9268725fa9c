package live

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
)

// A look may have read the home before the write that the second hint reports.
func TestAHintWithoutAPostThatComesDuringALookBringsAnotherLook(t *testing.T) {
	t.Parallel()
	for _, name := range []string{aWrite, somePost} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgenda(time.Hour, 2*time.Hour, func() float64 { return 0 })
			a.hint(name, 0, nearTry)
			<-time.After(nearTry) // in virtual time
			look, began := a.begin()
			a.hint(name, 0, nearTry)
			a.answer(nil, look, began)
			a.looked(look, began, 0)
			assert.Equal(t, nearTry, time.Until(a.next()))
			<-time.After(nearTry)
			look, began = a.begin()
			a.answer(nil, look, began)
			a.looked(look, began, 0)
			assert.Equal(t, time.Hour, time.Until(a.next()), "no look is left but the slow one")
		})
	}
}

// A look for another reason (a slow look, or a look for a named hint) begins before the time of the hint.
// A second post overflows into the hint while that look runs.
func TestAHintWithoutAPostThatComesDuringALookForAnotherReasonBringsAnotherLook(t *testing.T) {
	t.Parallel()
	for _, name := range []string{aWrite, somePost} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgenda(time.Hour, 2*time.Hour, func() float64 { return 0 })
			a.hint(name, 0, hintTry)
			<-time.After(hintTry / 2)
			look, began := a.begin()
			<-time.After(hintTry / 4)
			a.hint(name, 0, hintTry)
			a.answer(nil, look, began)
			a.looked(look, began, 0)
			assert.Equal(t, hintTry, time.Until(a.next()))
		})
	}
}

// A read that has waited for its units has used these units. A read that ended its wait has used none.
func TestReadsThatWaitForUnitsKeepTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{rate: 10}
		began := time.Now()
		wait := func(ctx context.Context) error { return b.wait(ctx, 10) }
		for range 8 { // two reads are free, and the third read takes its units before they are paid for
			require.NoError(t, wait(t.Context()))
		}
		assert.Equal(t, 5*time.Second, time.Since(began))
		gone, leave := context.WithCancel(t.Context())
		leave()
		for range 100 {
			require.Error(t, wait(gone))
		}
		require.NoError(t, wait(t.Context()))
		assert.Equal(t, 6*time.Second, time.Since(began))
	})
}

// If a home has too many hinted posts, the next hint replaces the hint of a post that did not arrive.
// Without such a post, the next hint names no post.
func TestAHomeRemembersSoManyHintedPosts(t *testing.T) {
	t.Parallel()
	a := newAgenda(time.Hour, time.Hour, func() float64 { return 0 })
	for i := range mostHints {
		a.hint(fmt.Sprint("post", i), 0, nearTry)
	}
	a.hint("post1", 0, nearTry)
	require.Len(t, a.hints, mostHints, "one that is known")
	a.hint("more", 0, nearTry)
	assert.Len(t, a.hints, mostHints+1)
	assert.Contains(t, a.hints, somePost)
	assert.NotContains(t, a.hints, "more")
	a.hints["post7"].due = nil // the post did not arrive
	delete(a.hints, somePost)
	a.hint("more", 0, nearTry)
	assert.Len(t, a.hints, mostHints)
	assert.Contains(t, a.hints, "more")
	assert.NotContains(t, a.hints, "post7")
}

func TestASoonerSlowLookIsTold(t *testing.T) {
	t.Parallel()
	a := newAgenda(time.Hour, time.Hour, func() float64 { return 0 })
	a.setSlow(2 * time.Hour)
	assert.Empty(t, a.changed)
	a.setSlow(time.Minute)
	assert.Len(t, a.changed, 1)
}

func TestAnUnfollowTakesTheFirstAuthorFromTheList(t *testing.T) {
	t.Parallel()
	r, hm := newReaders(10, func(int) {}), &userHome{}
	r.begin(hm)
	require.True(t, r.set(hm, []string{"ann", "ben"}, true))
	for i, author := range []string{"ann", "ben"} {
		require.Len(t, r.of(r.hash(author)), 1)
		r.change(hm, edge{author: r.hash(author)})
		assert.Empty(t, r.of(r.hash(author)))
		assert.Equal(t, 1-i, r.edges)
	}
}

// A change during a read of the list outlives the read, also in a home whose former list did not fit.
func TestAChangeDuringAReadIsInTheList(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*readers, *userHome, string){
		"follow": func(r *readers, hm *userHome, user string) { r.change(hm, edge{r.hash(user), true}) }, "look": (*readers).shown,
	}
	for name, change := range changes {
		for _, fits := range []bool{true, false} {
			r, hm := newReaders(10, func(int) {}), &userHome{}
			r.begin(hm)
			require.Equal(t, fits, r.set(hm, []string{"ann"}, fits))
			r.begin(hm)
			change(r, hm, "ben")
			require.True(t, r.set(hm, []string{"ann"}, true))
			assert.Truef(t, r.lists(hm, r.hash("ben")), "%s, the former list fits: %v", name, fits)
			r.drop(hm)
			change(r, hm, "cid")
			assert.Zero(t, r.edges)
		}
	}
}

// An author who edits all the time does not push the look at the first edit away (C4).
func TestALaterEditDelaysNoLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAgenda(time.Hour, time.Hour, func() float64 { return 0 })
		require.True(t, a.edit(access.Ref{Post: "p"}))
		<-time.After(editTry / 2)
		require.True(t, a.edit(access.Ref{Post: "p"}))
		require.True(t, a.edit(access.Ref{Post: "q"}))
		assert.Equal(t, editTry/2, time.Until(a.next()))
	})
}

// A successful look at edited posts ends the series of failures.
func TestAFailedLookAtEditedPostsIsRepeatedSoonAfterASuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAgenda(time.Hour, time.Hour, func() float64 { return 0 })
		refs, down := []access.Ref{{Post: "p"}}, errors.New("down")
		for range 3 {
			a.lookedAtEdited(refs, down)
		}
		assert.Greater(t, time.Until(a.next()), failedLook)
		a.lookedAtEdited(refs, nil)
		a.lookedAtEdited(refs, down)
		assert.Equal(t, failedLook, time.Until(a.next()))
	})
}

// nothing returns no new posts, and records the time from which posts were requested.
type nothing struct{ low time.Time }

func (n *nothing) PostsMade(_ context.Context, low time.Time) (home.Made, error) {
	n.low = low
	return home.Made{}, nil
}

// A tick reads a little further back than the previous tick, and each tenth tick reads much further
// back. Then the tail forgets the posts that no later tick can read.
func TestATickReadsBackAndForgets(t *testing.T) {
	t.Parallel()
	now := time.Now()
	asked := &nothing{}
	tl := &tail{hub: &Hub{cfg: Config{Now: func() time.Time { return now }, Posts: asked}}, good: now, known: map[string]time.Time{}}
	for tick := range 2*longEach + 1 {
		now = now.Add(time.Second)
		tl.known["old"], tl.known["new"] = now.Add(-1), now
		require.NoError(t, tl.tick(t.Context()))
		if tick%longEach == 0 {
			assert.Equal(t, tailLong, now.Sub(asked.low), tick)
			assert.Len(t, tl.known, 1, tick)
		} else {
			assert.Equal(t, time.Second+tailBack, now.Sub(asked.low), tick)
			assert.Len(t, tl.known, 2, tick)
		}
	}
}
