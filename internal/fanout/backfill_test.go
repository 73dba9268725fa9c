package fanout_test

import (
	"slices"
	"testing"
	"time"

	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// stored puts n posts of the author into the table, a minute apart.
func (w *world) stored(n int) (ids []string) {
	w.Helper()
	for range n {
		e := w.post()
		_, err := w.EnsurePost(w.Context(), e)
		w.must(err)
		ids = append(ids, e.PostID)
		w.now = w.now.Add(time.Minute)
	}
	return ids
}

func TestBackfillCopiesLivingPostsFromTheFollowsFirstOn(t *testing.T) {
	w := newWorld(t, 0, small)
	posts := w.stored(12)
	w.deletePost(posts[5])
	w.deletePost(posts[7])
	w.follow("new", posts[2])
	w.drain(w.worker)
	w.wantHome("new", posts[2], posts[3], posts[4], posts[6], posts[8], posts[9], posts[10], posts[11])
	m := w.mark("new")
	if m.Kind != schema.MarkBackfill || !m.Until.Equal(w.now.Add(time.Minute)) || m.TTL.Sub(w.now) < timelineTTL-10*time.Minute {
		t.Errorf("mark = %+v, want a backfill that merges for one more minute, and then hides older entries", m)
	}
}

func TestTheMarkOfABackfillThatHidesNothingEndsSoon(t *testing.T) {
	w := newWorld(t, 0)
	e := w.post()
	_, err := w.EnsurePost(t.Context(), e)
	w.must(err)
	w.must(w.worker.HandleBackfills(t.Context(), w.follow("new", id.Min)))
	w.wantHome("new", e.PostID)
	m := w.mark("new")
	assert.Equal(t, w.now.Add(time.Minute), m.Until)
	assert.Equal(t, m.Until.Add(time.Hour), m.TTL, "nothing is hidden, and the table's clock may be ahead")
}

func TestBackfillLeavesOutWhatIsTooOldForATimeline(t *testing.T) {
	w := newWorld(t, 0, small)
	posts := w.stored(3)
	w.now = w.now.Add(timelineTTL - 90*time.Second)
	w.follow("new", id.Min)
	w.drain(w.worker)
	w.wantHome("new", posts[2])
}

// I15: no entry outlives its post, and an ended post gets no entry.
func TestBackfillKeepsTheEndsOfPosts(t *testing.T) {
	w := newWorld(t, 0, small)
	posts := w.stored(3)
	end := w.now.Add(time.Hour)
	for post, ttl := range map[string]time.Time{posts[0]: w.now, posts[1]: end} {
		_, err := w.mem.Update(t.Context(), table.UpdateInput{Key: schema.PostKey(author, post), Set: []table.Attr{{Name: table.AttrTTL, Value: table.N(ttl.Unix())}}})
		w.must(err)
	}
	w.follow("new", id.Min)
	w.drain(w.worker)
	w.wantHome("new", posts[1], posts[2])
	res, err := w.mem.Get(t.Context(), table.GetInput{Key: table.Key{PK: schema.TimelinePK("new"), SK: schema.EntrySK(posts[1], author)}})
	w.must(err)
	assert.Equal(t, end.Unix(), res.Item.Int(table.AttrTTL))
}

func TestBackfillThatIsDoneCostsOneRead(t *testing.T) {
	w := newWorld(t, 0, small)
	w.stored(3)
	e := w.follow("new", id.Min)
	w.drain(w.worker)
	before := *w.mark("new")
	w.now = w.now.Add(time.Hour)
	calls := 0
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		calls++
		return do()
	}
	w.must(w.worker.HandleBackfills(t.Context(), e))
	if calls != 1 || *w.mark("new") != before {
		t.Errorf("%d calls, mark %+v", calls, w.mark("new"))
	}
}

func TestAFaultInABackfillLeavesTheMarkUntilThePostsAreThere(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			at := 0
			for fired := true; fired; at++ {
				w := newWorld(t, 0, small)
				posts := w.stored(9)
				w.follow("new", id.Min)
				fired = w.drainWithFault(at, f.done, f.dies)
				w.wantHome("new", posts...)
				m := w.mark("new")
				assert.Falsef(t, m.TTL.IsZero(), "mark = %+v, want a ttl", m)
				require.Falsef(t, t.Failed(), "failed with the fault at call %d", at)
			}
		})
	}
}

// TestUnfollowAndRefollowDuringABackfill changes the follow at each port call of a backfill in turn. In the
// end the mark must belong to the last change of the follow.
func TestUnfollowAndRefollowDuringABackfill(t *testing.T) {
	for _, refollow := range []bool{false, true} {
		at := 0
		for fired := true; fired; at++ {
			w := newWorld(t, 0, small)
			posts := w.stored(9)
			first := w.follow("new", id.Min)
			change := w.atCall(at, func() {
				w.unfollow("new")
				if refollow {
					w.follow("new", posts[4])
				}
			})
			w.drain(w.worker)
			if fired = change(); !fired {
				break
			}
			w.enqueue(first) // redelivered late
			w.drain(w.worker)
			m := w.mark("new")
			if !refollow {
				if m.Kind != schema.MarkUnfollowed || !m.TTL.IsZero() {
					t.Errorf("unfollow at call %d: mark = %+v", at, m)
				}
				continue
			}
			if m.Kind != schema.MarkBackfill || m.Version == first.MarkVersion || m.TTL.IsZero() {
				t.Errorf("refollow at call %d: mark = %+v", at, m)
			}
			home := w.home("new")
			for _, post := range posts[4:] {
				found := 0
				for _, got := range home {
					if got == post {
						found++
					}
				}
				assert.Equalf(t, 1, found, "refollow at call %d: post %s is there %d times", at, post, found)
			}
		}
		require.GreaterOrEqualf(t, at, 5, "only %d calls", at)
	}
}

func TestBackfillIsBoundedByPages(t *testing.T) {
	w := newWorld(t, 0, func(c *fanout.Config) { c.PageSize = 10 })
	posts := w.stored(35)
	queries := 0
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		if op == table.OpQuery {
			queries++
		}
		return do()
	}
	w.follow("new", id.Min)
	w.drain(w.worker)
	w.wantHome("new", posts...)
	assert.Equal(t, 5, queries, "the mode, and pages of 10 for 35 posts")
}

// TestALateFanOutShowsNoMoreThanPull delivers posts below the follow's first post to a follower
// whose backfill is done. Until the posts leave every home, push and pull show the same posts.
func TestALateFanOutShowsNoMoreThanPull(t *testing.T) {
	w := newWorld(t, 0, small)
	var late []*messages.PostCreated
	for range 8 {
		e := w.post()
		_, err := w.EnsurePost(t.Context(), e)
		w.must(err)
		late = append(late, e)
		w.now = w.now.Add(time.Minute)
	}
	const first = 5
	from := late[first].PostID
	_, err := w.mem.Put(t.Context(), table.PutInput{Item: schema.FollowingItem("new", author, w.now, from)})
	w.must(err)
	w.follow("new", from)
	w.drain(w.worker)
	for _, e := range late {
		w.must(w.worker.HandlePosts(t.Context(), e))
	}
	reader := newDomain(access.Config{Store: w.mem, Now: w.clock, Lifetimes: lifetime.Fixed(timelineTTL)})
	shown := func(pull bool) (posts []string) {
		list, err := reader.Home(t.Context(), "new", home.Query{Pull: pull}, page.Request{})
		w.must(err)
		for _, it := range list.Items {
			posts = append(posts, it.Post.ID)
		}
		return posts
	}
	began := w.now
	for after, want := range map[time.Duration]int{
		30 * time.Second:                3, // the mark still merges posts
		2 * time.Minute:                 3,
		timelineTTL - 9*time.Minute:     3,
		timelineTTL - 2*time.Minute - 1: 2,
		timelineTTL:                     0,
	} {
		w.now = began.Add(after)
		if push, pull := shown(false), shown(true); len(pull) != want || !slices.Equal(push, pull) {
			t.Errorf("%s after the follow push shows %v, pull %v, want %d", after, push, pull, want)
		}
	}
}
