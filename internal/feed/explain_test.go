package feed_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// graveyard is a queue that has only dead letters.
type graveyard struct {
	queue.DeadLetters
	letters []queue.DeadLetter
}

func (g *graveyard) ListDead(_ context.Context, topic string, limit int) (dead []queue.DeadLetter, err error) {
	for _, letter := range g.letters {
		if letter.Topic == topic && len(dead) < limit {
			dead = append(dead, letter)
		}
	}
	return dead, nil
}

// story is a world with the product's own fan-out worker. Messages wait until the story handles them.
// The workers read four followers at a time.
type story struct {
	*world
	graveyard
	worker  *fanout.Worker
	waiting []waiting
	// fault makes the worker's writes of keys with this prefix fail.
	fault string
}

// settings are the push limit and the active days of each process.
type settings struct {
	limit int64
	days  int
}

type waiting struct {
	topic string
	event messages.Event
}

func newStory(t *testing.T, store func(*clock) table.Store, set settings) *story {
	t.Helper()
	s, at := &story{}, newClock()
	s.world = newWorldAt(t, at, func(c *config) { c.Store, c.Publisher, c.RecentPosts, c.ActiveDays = store(at), s, 3, set.days })
	faulty := &tap{Store: s.store, fault: func(c call) failure {
		if s.fault != "" && (c.op == table.OpPut || c.op == table.OpUpdate) && c.key.SK == s.fault {
			return lost
		}
		return works
	}}
	s.worker = fanout.New(fanout.Config{
		Store: faulty, Posts: s.Service, Publisher: s, IDs: id.NewGenerator(at.now), Now: at.now, Lifetimes: lifetime.Fixed(timelineTTL),
		PushLimit: set.limit, ActiveDays: set.days, PageSize: 4, ChunkSize: 4,
	})
	s.users("ann", "fan")
	return s
}

// Publish implements message.Publisher.
func (s *story) Publish(topic string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		e, err := messages.Decode(msg.Payload)
		if err != nil {
			return err
		}
		if topic != queue.TopicLikes { // a count explains nothing
			s.waiting = append(s.waiting, waiting{topic, e})
		}
	}
	return nil
}

// Close implements message.Publisher.
func (*story) Close() error { return nil }

// take removes the first waiting message and returns it.
func (s *story) take() waiting {
	s.t.Helper()
	require.NotEmpty(s.t, s.waiting)
	next := s.waiting[0]
	s.waiting = s.waiting[1:]
	return next
}

// work handles the first waiting message, and returns its error.
func (s *story) work() error {
	s.t.Helper()
	switch next := s.take(); next.topic {
	case queue.TopicPosts:
		return s.worker.HandlePosts(s.t.Context(), next.event)
	case queue.TopicChunks:
		return s.worker.HandleChunks(s.t.Context(), next.event)
	default:
		return s.worker.HandleBackfills(s.t.Context(), next.event)
	}
}

func (s *story) workAll() {
	s.t.Helper()
	for len(s.waiting) > 0 {
		require.NoError(s.t, s.work())
	}
}

// bury makes the first waiting message a dead letter.
func (s *story) bury() {
	s.t.Helper()
	next := s.take()
	payload, err := messages.Encode(next.event)
	require.NoError(s.t, err)
	s.letters = append(s.letters, queue.DeadLetter{
		ID: "m1", Topic: next.topic, Payload: payload, Reason: "too often received", FailedAt: s.clock.now(),
	})
}

// crowd makes users with ids below and above fan follow ann, so that fan is in the second chunk.
func (s *story) crowd() {
	s.t.Helper()
	for _, user := range append(numbered(4, "a"), "zed", "zoe") {
		s.users(user)
		s.follow(user, "ann")
	}
	s.follow("fan", "ann")
	s.workAll()
	s.clock.add(time.Hour)
}

// followed makes fan follow ann, and then lets an hour pass.
func (s *story) followed() {
	s.t.Helper()
	s.follow("fan", "ann")
	s.workAll()
	s.clock.add(time.Hour)
}

// away makes fan follow ann and stay away, until fan-out skips a post by ann.
func (s *story) away() feed.Post {
	s.t.Helper()
	s.followed()
	s.clock.add(5 * 24 * time.Hour)
	p := s.post("ann", "hello")
	s.workAll()
	return p
}

type telling struct {
	name   string
	set    settings
	reason home.Reason
	tell   func(*story) feed.Post
	says   string
}

// stories lead to each reason by a sequence of events. Each story returns the post whose explanation
// to fan is checked.
var stories = []telling{
	{"own", settings{}, home.ReasonOwn, func(s *story) feed.Post { return s.post("fan", "mine") }, "fan wrote it"},
	{"pushed to all at once", settings{}, home.ReasonPushed, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll()
		return p
	}, "chunk 1 pushed it, done at 2026-11-21T13:00:00Z"},
	{"pushed by the second chunk", settings{}, home.ReasonPushed, func(s *story) feed.Post {
		s.crowd()
		p := s.post("ann", "hello")
		s.workAll()
		return p
	}, "chunk 2 pushed it, done at 2026-11-21T13:00:00Z"},
	{"pushed by a worker that died", settings{}, home.ReasonPushed, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.fault = schema.ChunkSK("")
		assert.Error(s.t, s.work())
		return p
	}, "it was pushed, by a chunk that is not done yet"},
	{"copied", settings{}, home.ReasonCopied, func(s *story) feed.Post {
		p := s.post("ann", "hello")
		s.clock.add(time.Hour)
		s.followed()
		s.clock.add(time.Hour)
		return p
	}, "the backfill copied it, after fan followed ann at 2026-11-21T13:00:00Z"},
	{"merged", settings{}, home.ReasonMerged, func(s *story) feed.Post {
		p := s.post("ann", "hello")
		s.follow("fan", "ann")
		return p
	}, "the mark of the follow merges it in, until the posts of ann are copied"},
	{"merged for a minute more", settings{}, home.ReasonMerged, func(s *story) feed.Post {
		s.follow("fan", "ann")
		s.workAll()
		return s.post("ann", "hello")
	}, "the mark of the follow merges it in until 2026-11-21T12:01:00Z"},
	{"pulled", settings{limit: 1}, home.ReasonPulled, func(s *story) feed.Post {
		s.crowd()
		s.post("ann", "after which the mode changes")
		s.workAll()
		p := s.post("ann", "hello")
		s.workAll()
		return p
	}, "a mark merges it in, because ann is pulled"},
	{"skipped", settings{days: 2}, home.ReasonSkipped, func(s *story) feed.Post { return s.away() },
		"fan-out skipped it, as fan is away since 2026-11-24T00:00:00Z: the home is read by pull there"},
	{"skipped, and the return has begun", settings{days: 2}, home.ReasonSkipped, func(s *story) feed.Post {
		p := s.away()
		s.home("fan", 10, home.Query{})
		return p
	}, "fan-out skipped it, as fan is away since 2026-11-24T00:00:00Z: the home is read by pull there"},
	{"skipped, and in the gap", settings{days: 2}, home.ReasonSkipped, func(s *story) feed.Post {
		p := s.away()
		for range 200 { // a return writes 200 entries at most
			s.post("ann", "newer")
		}
		s.workAll()
		s.home("fan", 10, home.Query{})
		s.workAll()
		s.clock.add(time.Hour)
		return p
	}, "fan-out skipped it, as fan is away since 2026-11-24T00:00:00Z: the home is read by pull there"},
	{"returned", settings{days: 2}, home.ReasonReturned, func(s *story) feed.Post {
		p := s.away()
		s.clock.add(time.Hour)
		s.home("fan", 10, home.Query{})
		s.workAll()
		return p
	}, "the return of fan wrote it, done at 2026-11-26T14:00:00Z"},
	{"queued while fan is away", settings{days: 2}, home.ReasonByPull, func(s *story) feed.Post {
		s.away()
		return s.post("ann", "hello")
	}, "the home is read by pull, as fan is away since 2026-11-24T00:00:00Z or returns"},
	{"deleted", settings{}, home.ReasonDeleted, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll()
		require.NoError(s.t, s.DeletePost(s.t.Context(), "ann", p.ID))
		return p
	}, "its author deleted it"},
	{"taken down", settings{}, home.ReasonTakenDown, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll()
		_, err := s.TakeDown(s.t.Context(), "moderation", p.ID, "forged shoes")
		require.NoError(s.t, err)
		return p
	}, "moderation took it down at 2026-11-21T13:00:00Z: forged shoes"},
	{"repost of a deleted post", settings{}, home.ReasonOriginal, func(s *story) feed.Post {
		p, r := s.reposted()
		require.NoError(s.t, s.DeletePost(s.t.Context(), "bob", p.ID))
		return r
	}, "it is a repost of " + theOriginal + ", which is gone, or hidden by a mute or a block"},
	{"repost of a post of a muted author", settings{}, home.ReasonOriginal, func(s *story) feed.Post {
		_, r := s.reposted()
		require.NoError(s.t, s.Mute(s.t.Context(), "fan", "bob"))
		return r
	}, "it is a repost of " + theOriginal + ", which is gone, or hidden by a mute or a block"},
	{"repost of a post of an author with a block", settings{}, home.ReasonOriginal, func(s *story) feed.Post {
		_, r := s.reposted()
		require.NoError(s.t, s.Block(s.t.Context(), "bob", "fan"))
		return r
	}, "it is a repost of " + theOriginal + ", which is gone, or hidden by a mute or a block"},
	{"post with a newer repost", settings{}, home.ReasonRepeat, func(s *story) feed.Post {
		p, _ := s.reposted()
		s.follow("fan", "bob")
		s.workAll()
		return p
	}, "it shows at its newer repost " + theRepost},
	{"repost with a newer repost", settings{}, home.ReasonRepeat, func(s *story) feed.Post {
		p, r := s.reposted()
		s.follow("fan", "dan")
		_, err := s.Repost(s.t.Context(), "dan", p.ID)
		require.NoError(s.t, err)
		s.workAll()
		return r
	}, "it shows at its newer repost " + theRepost},
	{"repost with a newer repost that is hidden", settings{}, home.ReasonPushed, func(s *story) feed.Post {
		p, r := s.reposted()
		s.follow("fan", "dan")
		_, err := s.Repost(s.t.Context(), "dan", p.ID)
		require.NoError(s.t, err)
		s.workAll()
		require.NoError(s.t, s.Mute(s.t.Context(), "fan", "dan"))
		return r
	}, "chunk 1 pushed it, done at 2026-11-21T13:00:00Z"},
	{"repost of an unfollowed author", settings{}, home.ReasonUnfollowed, func(s *story) feed.Post {
		p, r := s.reposted()
		require.NoError(s.t, s.Unfollow(s.t.Context(), "fan", "ann"))
		require.NoError(s.t, s.DeletePost(s.t.Context(), "bob", p.ID))
		return r
	}, "fan unfollowed ann at 2026-11-21T13:00:00Z"},
	{"expired", settings{}, home.ReasonExpired, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll()
		s.clock.add(timelineTTL)
		return p
	}, "it expired at 2026-12-21T13:00:00Z"},
	{"unfollowed", settings{}, home.ReasonUnfollowed, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll()
		s.clock.add(time.Hour)
		require.NoError(s.t, s.Unfollow(s.t.Context(), "fan", "ann"))
		return p
	}, "fan unfollowed ann at 2026-11-21T14:00:00Z"},
	{"muted", settings{}, home.ReasonMuted, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll()
		s.clock.add(time.Hour)
		require.NoError(s.t, s.Mute(s.t.Context(), "fan", "ann"))
		return p
	}, "it is hidden by a mute: fan muted ann at 2026-11-21T14:00:00Z"},
	{"not followed", settings{}, home.ReasonNotFollowed, func(s *story) feed.Post {
		p := s.post("ann", "hello")
		s.workAll()
		return p
	}, "fan does not follow ann"},
	{"before the follow", settings{}, home.ReasonBeforeFollow, func(s *story) feed.Post {
		p := s.post("ann", "hello")
		for range 3 {
			s.post("ann", "newer")
		}
		s.followed()
		return p
	}, "it is older than the posts that are shown since fan followed ann at 2026-11-21T12:00:00Z"},
	{"before the second follow", settings{}, home.ReasonBeforeFollow, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll() // the entry of the post stays
		require.NoError(s.t, s.Unfollow(s.t.Context(), "fan", "ann"))
		for range 3 {
			s.post("ann", "newer")
		}
		s.followed()
		return p
	}, "it is older than the posts that are shown since fan followed ann at 2026-11-21T13:00:00Z"},
	{"no worker has begun", settings{}, home.ReasonQueued, func(s *story) feed.Post {
		s.followed()
		return s.post("ann", "hello")
	}, "its delivery is still queued"},
	{"not planned so far", settings{}, home.ReasonQueued, func(s *story) feed.Post {
		s.crowd()
		p := s.post("ann", "hello")
		require.NoError(s.t, s.work())
		return p
	}, "its delivery is still queued"},
	{"the second chunk waits", settings{}, home.ReasonQueued, func(s *story) feed.Post {
		s.crowd()
		p := s.post("ann", "hello")
		for range 3 { // the three messages are for the post, the plan and the first chunk
			require.NoError(s.t, s.work())
		}
		return p
	}, "its delivery is still queued: chunk 2 is not done"},
	{"another chunk is dead", settings{}, home.ReasonQueued, func(s *story) feed.Post {
		s.crowd()
		p := s.post("ann", "hello")
		for range 2 {
			require.NoError(s.t, s.work())
		}
		s.bury()
		return p
	}, "its delivery is still queued: chunk 2 is not done"},
	{"a dead message of a stranger", settings{}, home.ReasonQueued, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.waiting[0].event.(*messages.PostCreated).AuthorID = "zed"
		s.bury()
		return p
	}, "its delivery is still queued"},
	{"a dead post", settings{}, home.ReasonDeadLetter, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.bury()
		return p
	}, "its delivery stopped at dead letter m1 of posts at 2026-11-21T13:00:00Z: too often received"},
	{"a dead plan", settings{}, home.ReasonDeadLetter, func(s *story) feed.Post {
		s.crowd()
		p := s.post("ann", "hello")
		require.NoError(s.t, s.work())
		s.bury()
		return p
	}, "its delivery stopped at dead letter m1 of chunks at 2026-11-21T13:00:00Z: too often received"},
	{"a dead chunk", settings{}, home.ReasonDeadLetter, func(s *story) feed.Post {
		s.crowd()
		p := s.post("ann", "hello")
		for range 3 {
			require.NoError(s.t, s.work())
		}
		s.bury()
		return p
	}, "its delivery stopped at dead letter m1 of chunks at 2026-11-21T13:00:00Z: too often received"},
	{"a dead post that never was in the table", settings{}, home.ReasonDeadLetter, func(s *story) feed.Post {
		post, err := id.NewGenerator(s.clock.now).New()
		require.NoError(s.t, err)
		p := s.produced(post)
		s.bury()
		return p
	}, "its delivery stopped at dead letter m1 of posts at 2026-11-21T12:00:00Z: too often received"},
	{"lost", settings{}, home.ReasonMissing, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll()
		s.lose(p)
		return p
	}, "nothing accounts for it: ask again, and please report this as a defect if the answer stays"},
	{"lost by its author", settings{}, home.ReasonMissing, func(s *story) feed.Post {
		p := s.post("fan", "mine")
		s.lose(p)
		return p
	}, "nothing accounts for it: ask again, and please report this as a defect if the answer stays"},
	{"lost with the mark of a pulled author", settings{limit: 1}, home.ReasonMissing, func(s *story) feed.Post {
		s.crowd()
		s.post("ann", "after which the mode changes")
		s.workAll()
		p := s.post("ann", "hello")
		s.workAll()
		_, err := s.store.Delete(s.t.Context(), table.DeleteInput{Key: schema.MarkKey("fan", "ann")})
		require.NoError(s.t, err)
		return p
	}, "nothing accounts for it: ask again, and please report this as a defect if the answer stays"},
}

// edgeStories are about the oldest posts that follows and homes show, and about the ends of chunks.
var edgeStories = []telling{
	{"copied, as the oldest of a follow", settings{}, home.ReasonCopied, func(s *story) feed.Post {
		p := s.oldest(2)
		s.followed()
		return p
	}, "the backfill copied it, after fan followed ann at 2026-11-21T13:00:00Z"},
	{"merged, as the oldest of a follow", settings{}, home.ReasonMerged, func(s *story) feed.Post {
		p := s.oldest(2)
		s.follow("fan", "ann")
		return p
	}, "the mark of the follow merges it in, until the posts of ann are copied"},
	{"before a follow that merges", settings{}, home.ReasonBeforeFollow, func(s *story) feed.Post {
		p := s.oldest(3)
		s.follow("fan", "ann")
		return p
	}, "it is older than the posts that are shown since fan followed ann at 2026-11-21T13:00:00Z"},
	{"muted, as the oldest of a follow", settings{}, home.ReasonMuted, func(s *story) feed.Post {
		p := s.oldest(2)
		s.followed()
		require.NoError(s.t, s.Mute(s.t.Context(), "fan", "ann"))
		return p
	}, "it is hidden by a mute: fan muted ann at 2026-11-21T14:00:00Z"},
	{"muted, and before the follow", settings{}, home.ReasonBeforeFollow, func(s *story) feed.Post {
		p := s.oldest(3)
		s.followed()
		require.NoError(s.t, s.Mute(s.t.Context(), "fan", "ann"))
		return p
	}, "it is older than the posts that are shown since fan followed ann at 2026-11-21T13:00:00Z"},
	{"muted, and not followed", settings{}, home.ReasonNotFollowed, func(s *story) feed.Post {
		p := s.oldest(0)
		require.NoError(s.t, s.Mute(s.t.Context(), "fan", "ann"))
		return p
	}, "fan does not follow ann"},
	{"muted, and unfollowed", settings{}, home.ReasonUnfollowed, func(s *story) feed.Post {
		p := s.oldest(0)
		s.followed()
		require.NoError(s.t, s.Mute(s.t.Context(), "fan", "ann"))
		require.NoError(s.t, s.Unfollow(s.t.Context(), "fan", "ann"))
		return p
	}, "fan unfollowed ann at 2026-11-21T14:00:00Z"},
	{"lost, as the oldest of a follow", settings{}, home.ReasonMissing, func(s *story) feed.Post {
		p := s.oldest(2)
		s.followed()
		s.lose(p)
		return p
	}, "nothing accounts for it: ask again, and please report this as a defect if the answer stays"},
	{"pushed before the reader went away and came back", settings{days: 2}, home.ReasonPushed, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.workAll()
		s.clock.add(5 * 24 * time.Hour)
		s.home("fan", 10, home.Query{})
		s.workAll()
		s.clock.add(time.Hour)
		return p
	}, "chunk 1 pushed it, done at 2026-11-21T13:00:00Z"},
	{"the oldest that a home shows", settings{}, home.ReasonPushed, func(s *story) feed.Post {
		s.followed()
		p := s.produced(id.Floor(s.clock.now()))
		s.workAll()
		s.clock.add(timelineTTL - time.Second)
		return p
	}, "chunk 1 pushed it, done at 2026-11-21T13:00:00Z"},
	{"the newest that a home does not show", settings{}, home.ReasonExpired, func(s *story) feed.Post {
		s.followed()
		p := s.produced(id.Floor(s.clock.now().Add(-time.Millisecond)))
		s.workAll()
		s.clock.add(timelineTTL - time.Second)
		return p
	}, "it expired at 2026-12-21T12:59:59Z"},
	{"planned for the users below fan", settings{}, home.ReasonQueued, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.put(schema.Plan{Post: p.ID, Author: "ann"}.Item(), schema.Chunk{Post: p.ID, End: "fan", Done: s.clock.now()}.Item())
		return p
	}, "its delivery is still queued"},
	{"planned for fan and users above", settings{}, home.ReasonQueued, func(s *story) feed.Post {
		s.followed()
		p := s.post("ann", "hello")
		s.put(schema.Plan{Post: p.ID, Author: "ann"}.Item(), schema.Chunk{Post: p.ID, End: "fan"}.Item(), schema.Chunk{Post: p.ID, First: "fan", End: "zed"}.Item())
		return p
	}, "its delivery is still queued: chunk 2 is not done"},
}

// lose deletes the entry of a post from fan's home.
func (s *story) lose(p feed.Post) {
	s.t.Helper()
	_, err := s.store.Delete(s.t.Context(), table.DeleteInput{Key: table.Key{PK: schema.TimelinePK("fan"), SK: schema.EntrySK(p.ID, p.AuthorID)}})
	require.NoError(s.t, err)
}

// oldest makes ann post a post, and then a number of newer posts. All posts were delivered an hour
// ago.
func (s *story) oldest(newer int) feed.Post {
	s.t.Helper()
	p := s.post("ann", "hello")
	for range newer {
		s.post("ann", "newer")
	}
	s.workAll()
	s.clock.add(time.Hour)
	return p
}

// theOriginal and theRepost stand for the ids of the original and of the newer repost in the sentence of a reason.
const theOriginal, theRepost = "ORIGINAL", "REPOST"

// reposted makes bob post, and ann repost the post.
func (s *story) reposted() (original, repost feed.Post) {
	s.t.Helper()
	s.followed()
	s.users("bob", "dan")
	original = s.post("bob", "hello")
	repost, err := s.Repost(s.t.Context(), "ann", original.ID)
	require.NoError(s.t, err)
	s.workAll()
	return original, repost
}

// produced makes another producer send a post by ann.
func (s *story) produced(post string) feed.Post {
	e := &messages.PostCreated{Header: messages.Header{EventID: post, Time: s.clock.now()}, PostID: post, AuthorID: "ann", Content: messages.Content{Text: "hello"}}
	s.waiting = append(s.waiting, waiting{queue.TopicPosts, e})
	return feed.Post{ID: post, AuthorID: "ann"}
}

func TestEachReasonIsToldByItsEvents(t *testing.T) {
	for name, store := range map[string]func(*clock) table.Store{
		"in memory": func(*clock) table.Store { return tabletest.NewMemory() },
		"embedded": func(c *clock) table.Store {
			store, err := embedded.Create("data", embedded.Options{FS: vfs.NewMem(), Now: c.now, SweepEvery: -1, MemoryBytes: 4 << 20})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, store.Close()) })
			return store
		},
	} {
		for _, tt := range slices.Concat(stories, edgeStories) {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				s := newStory(t, store, tt.set)
				p := tt.tell(s)
				all, err := s.Explain(t.Context(), s, "fan", p.ID)
				require.NoError(t, err)
				require.Len(t, all, 1)
				assert.Equal(t, tt.reason, all[0].Reason)
				assert.Equal(t, strings.NewReplacer(theOriginal, all[0].RepostOf, theRepost, all[0].Newer).Replace(tt.says), all[0].String())
				assert.Equal(t, p.AuthorID, all[0].Author)
				if gone := []home.Reason{home.ReasonDeleted, home.ReasonTakenDown, home.ReasonEnded}; slices.Contains(gone, tt.reason) {
					assert.Empty(t, all[0].PostText)
				}
				home := homeIDs(s.home("fan", 100, home.Query{}))
				assert.Equal(t, slices.Contains(home, p.ID), all[0].Reason.Shown(), "the home has %v", home)
			})
		}
	}
}

func TestTheNewestPostsOfTheFolloweesAreExplained(t *testing.T) {
	s := newStory(t, func(*clock) table.Store { return tabletest.NewMemory() }, settings{})
	s.users("bob")
	var want []string
	for i := range page.DefaultLimit {
		p := s.post([]string{"ann", "bob"}[i%2], fmt.Sprint("post ", i))
		reason := home.ReasonBeforeFollow
		if i >= page.DefaultLimit-2*3 { // the newest RecentPosts (3) posts of each author
			reason = home.ReasonCopied
		}
		want = append([]string{p.ID + " " + string(reason)}, want...)
	}
	s.users("eve")
	s.post("eve", "of a stranger")
	s.post("fan", "own")
	s.clock.add(time.Hour)
	s.follow("fan", "bob")
	s.followed()
	p := s.post("ann", "waits")
	want = append([]string{p.ID + " queued"}, want...)[:page.DefaultLimit]
	all, err := s.Explain(t.Context(), s, "fan", "")
	require.NoError(t, err)
	var got []string
	for _, e := range all {
		got = append(got, e.Post+" "+string(e.Reason))
	}
	assert.Equal(t, want, got)
	assert.Equal(t, "waits", all[0].PostText)
}

func TestAnExplanationNeedsAUserAndAPost(t *testing.T) {
	s := newStory(t, func(*clock) table.Store { return tabletest.NewMemory() }, settings{})
	for user, post := range map[string]string{"nobody": "", "fan": id.Min} {
		_, err := s.Explain(t.Context(), s, user, post)
		wantKind(t, err, fault.NotFound)
	}
	_, err := s.AnyDelivery(t.Context(), id.Min)
	wantKind(t, err, fault.NotFound)
	p := s.post("ann", "hello")
	d, err := s.AnyDelivery(t.Context(), p.ID)
	require.NoError(t, err)
	assert.Equal(t, delivery.Queued, d.State)
}

// A follow may be made between the read of its edge and the read of its mark. Such a follow must not
// look like a loss.
func TestAnExplanationOfAMovingFollowIsRight(t *testing.T) {
	s := newStory(t, func(*clock) table.Store { return tabletest.NewMemory() }, settings{})
	p := s.post("ann", "hello")
	s.workAll()
	s.follow("fan", "ann")
	mark := schema.MarkKey("fan", "ann")
	hidden := &withoutOnce{Store: s.store, key: mark}
	other := newDomain(config{way: way{Store: hidden, Publisher: s, Now: s.clock.now, Lifetimes: lifetime.Fixed(timelineTTL)}})
	all, err := other.Explain(t.Context(), s, "fan", p.ID)
	require.NoError(t, err)
	assert.Equal(t, home.ReasonMerged, all[0].Reason)
	assert.True(t, hidden.done)
}

// withoutOnce leaves a key out of the first batch that reads the key.
type withoutOnce struct {
	table.Store
	key  table.Key
	done bool
}

func (w *withoutOnce) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	res, err := w.Store.BatchGet(ctx, in)
	if !w.done && slices.Contains(in.Keys, w.key) {
		w.done = true
		res.Items = slices.DeleteFunc(res.Items, func(it table.Item) bool { return it.Key == w.key })
	}
	return res, err
}

func TestAFailedReadExplainsNothing(t *testing.T) {
	s := newStory(t, func(*clock) table.Store { return tabletest.NewMemory() }, settings{})
	s.crowd()
	p := s.post("ann", "hello")
	s.workAll()
	for n := range 5 {
		calls := 0
		broken := &tap{Store: s.store, fault: func(call) failure {
			if calls++; calls == n+1 {
				return lost
			}
			return works
		}}
		other := newDomain(config{way: way{Store: broken, Publisher: s, Now: s.clock.now, Lifetimes: lifetime.Fixed(timelineTTL)}})
		_, err := other.Explain(t.Context(), s, "fan", p.ID)
		assert.ErrorIsf(t, err, errDown, "call %d", n+1)
	}
}

// The help text of fanfare explain contains this cost.
func TestTheExplanationOfAPostCostsFourteenReadUnits(t *testing.T) {
	s := newStory(t, func(*clock) table.Store { return tabletest.NewMemory() }, settings{})
	s.crowd()
	p := s.post("ann", "hello")
	s.workAll()
	var mu sync.Mutex
	var units table.Units
	measured := table.Measure(s.store, func(_ table.Op, u table.Units, _ error) {
		mu.Lock()
		defer mu.Unlock()
		units = units.Plus(u)
	})
	other := newDomain(config{way: way{Store: measured, Publisher: s, Now: s.clock.now, Lifetimes: lifetime.Fixed(timelineTTL)}})
	_, err := other.Explain(t.Context(), s, "fan", p.ID)
	require.NoError(t, err)
	assert.Equal(t, table.Units{Read: 14}, units)
}

func newTale(t *testing.T) *story {
	t.Helper()
	return newStory(t, func(*clock) table.Store { return tabletest.NewMemory() }, settings{})
}

// The entry of a delivered post is missing. Only a home by pull shows the post.
func TestAPresenceExplainsAPostWithoutAnEntry(t *testing.T) {
	s := newTale(t)
	s.followed()
	p := s.post("ann", "hello")
	s.workAll()
	s.lose(p)
	s.clock.add(time.Hour)
	now, day := s.clock.now().Truncate(time.Millisecond), s.today()
	next := id.Floor(p.CreatedAt.Add(time.Millisecond))
	for name, c := range map[string]struct {
		presence schema.Presence
		want     home.Reason
		at       time.Time
	}{
		"here":                        {schema.Presence{Until: day + 1}, home.ReasonMissing, time.Time{}},
		"away since today":            {schema.Presence{Until: day}, home.ReasonByPull, (day + 1).Start()},
		"away for long":               {schema.Presence{Until: day - 9}, home.ReasonByPull, (day - 8).Start()},
		"returning":                   {schema.Presence{Until: day + 1, State: schema.PresenceReturning}, home.ReasonByPull, (day + 2).Start()},
		"back for less than a minute": {schema.Presence{Until: day + 1, At: now.Add(-time.Minute + time.Millisecond)}, home.ReasonByPull, (day + 2).Start()},
		"back for a minute":           {schema.Presence{Until: day + 1, At: now.Add(-time.Minute)}, home.ReasonMissing, time.Time{}},
		"first of the gap":            {schema.Presence{Until: day + 1, Lo: p.ID, Hi: next}, home.ReasonByPull, p.CreatedAt},
		"below the gap":               {schema.Presence{Until: day + 1, Lo: next, Hi: id.Max}, home.ReasonMissing, time.Time{}},
		"first above the gap":         {schema.Presence{Until: day + 1, Lo: id.Min, Hi: p.ID}, home.ReasonMissing, time.Time{}},
	} {
		c.presence.User = "fan"
		if c.presence.State == "" {
			c.presence.State = schema.PresenceHere
		}
		s.put(c.presence.Item())
		all, err := s.Explain(t.Context(), s, "fan", p.ID)
		require.NoError(t, err)
		assert.Equal(t, c.want, all[0].Reason, name)
		assert.WithinDuration(t, c.at, all[0].At, 0, name)
	}
}

// Letters that are not events of this product name no post.
func TestADeadLetterIsTheReasonOfItsPostOnly(t *testing.T) {
	s := newTale(t)
	s.users("bob")
	s.follow("fan", "bob")
	s.followed()
	s.letters = []queue.DeadLetter{{ID: "m0", Topic: queue.TopicPosts, Payload: []byte("{")}}
	var want []string
	tell := func(author string, reason home.Reason, work func()) {
		p := s.post(author, "hello")
		work()
		want = append([]string{p.ID + " " + author + " " + string(reason)}, want...)
	}
	tell("ann", home.ReasonPushed, s.workAll)
	tell("ann", home.ReasonDeadLetter, s.bury)
	tell("bob", home.ReasonPushed, s.workAll)
	tell("bob", home.ReasonQueued, func() { s.take() })
	tell("ann", home.ReasonQueued, func() { s.take() })
	all, err := s.Explain(t.Context(), s, "fan", "")
	require.NoError(t, err)
	var got []string
	for _, e := range all {
		got = append(got, e.Post+" "+e.Author+" "+string(e.Reason))
		if e.Reason == home.ReasonDeadLetter {
			assert.Equal(t, s.letters[1].ID+s.letters[1].Topic, e.DeadLetter+e.Topic)
		} else {
			assert.Empty(t, e.DeadLetter+e.Topic)
		}
	}
	assert.Equal(t, want, got)
}

// brokenGraveyard fails for one topic.
type brokenGraveyard struct {
	queue.DeadLetters
	topic string
}

func (b brokenGraveyard) ListDead(_ context.Context, topic string, _ int) ([]queue.DeadLetter, error) {
	if topic == b.topic {
		return nil, errDown
	}
	return nil, nil
}

func TestOnlyQueuedDeliveriesNeedTheDeadLetters(t *testing.T) {
	s := newTale(t)
	s.followed()
	pushed := s.post("ann", "pushed")
	s.workAll()
	queued := s.post("ann", "queued")
	for _, topic := range []string{queue.TopicPosts, queue.TopicChunks} {
		all, err := s.Explain(t.Context(), brokenGraveyard{topic: topic}, "fan", pushed.ID)
		require.NoError(t, err)
		assert.Equal(t, home.ReasonPushed, all[0].Reason)
		for _, post := range []string{queued.ID, ""} {
			_, err = s.Explain(t.Context(), brokenGraveyard{topic: topic}, "fan", post)
			wantKind(t, err, fault.Unavailable)
			assert.ErrorIs(t, err, errDown)
		}
	}
}

// An explanation counts the chunks up to the user's chunk, but at most a thousand chunks.
func TestAChunkAboveAThousandHasNoNumber(t *testing.T) {
	for _, c := range []struct {
		before, number int
		says           string
	}{
		{1, 2, "its delivery is still queued: chunk 2 is not done"},
		{998, 999, "its delivery is still queued: chunk 999 is not done"},
		{1000, 0, "its delivery is still queued: chunk above 1000 is not done"},
	} {
		s := newTale(t)
		s.followed()
		p := s.post("ann", "hello")
		firsts := append(append([]string{""}, numbered(c.before, "a")[1:]...), "fan", "")
		items := []table.Item{schema.Plan{Post: p.ID, Author: "ann"}.Item()}
		for i := range firsts[:len(firsts)-1] {
			items = append(items, schema.Chunk{Post: p.ID, First: firsts[i], End: firsts[i+1]}.Item())
		}
		s.put(items...)
		all, err := s.Explain(t.Context(), s, "fan", p.ID)
		require.NoError(t, err)
		assert.Equal(t, c.number, all[0].Chunk)
		assert.Equal(t, c.says, all[0].String())
	}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	e := home.Explanation{User: "fan", Reason: home.ReasonPushed, At: at}
	assert.Equal(t, "chunk above 1000 pushed it, done at 2026-11-21T12:00:00Z", e.String())
}

func TestAFailedReadExplainsNoHome(t *testing.T) {
	s := newTale(t)
	s.followed()
	s.post("ann", "hello")
	s.workAll()
	broken := &tap{Store: s.store}
	other := newDomain(config{way: way{Store: broken, Publisher: s, Now: s.clock.now, Lifetimes: lifetime.Fixed(timelineTTL)}})
	calls := failEachCall(t, broken, func() error {
		_, err := other.Explain(t.Context(), s, "fan", "")
		return err
	})
	assert.Greater(t, calls, 5, "the reads of the home come before those of the post")
}
