package notify_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/notify"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/throttle"
	"fanfare/messages"
)

// TestUnitsOfANotice checks the prices of docs/ACCESS_PATTERNS.md.
func TestUnitsOfANotice(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			var read, wrote float64
			spent := func(why string, reads, writes float64) {
				t.Helper()
				w.settle()
				assert.InDelta(t, reads, w.read-read, 0, "%s: reads", why)
				assert.InDelta(t, writes, w.wrote-wrote, 0, "%s: writes", why)
				read, wrote = w.read, w.wrote
			}
			w.like("bob", true)
			spent("new", 3.5, 2)
			carl := w.like("carl", true)
			spent("a later window", 3.5, 3)
			w.like("bob", false)
			spent("a take-back behind the top", 3, 2)
			w.send(carl)
			spent("a redelivery", 3, 0)
			w.like("dora", true)
			w.like("emil", true)
			w.like("frida", true)
			spent("three in a window", 4.5, 3)
			w.send(&messages.Followed{FollowerID: "bob", AuthorID: "ann", From: id.Min, MarkVersion: w.newID()})
			spent("a follow", 3.5, 2)
			w.send(&messages.Mentioned{UserID: "ann", ActorID: "bob", PostID: w.post})
			spent("a mention", 5, 2)
			comment := schema.Comment{ID: w.newID(), Post: w.post, Author: "bob", Text: "!"}
			w.put(comment.Item())
			w.send(&messages.Commented{PostID: w.post, AuthorID: "ann", CommentID: comment.ID, UserID: "bob"})
			spent("a comment", 4.5, 2)
			w.like("ann", true)
			spent("an own like", 0, 0)
		})
	})
}

func TestANoticeNamesTheLatestActionsOnly(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			for i := range 7 {
				w.like(fmt.Sprintf("fan%d", i), true)
			}
			w.like("fan6", false)
			w.settle()
			assert.Equal(t, []string{"fan5", "fan4", "fan3", "fan2"}, w.likers())
			assert.Equal(t, "written", w.results(), "one window")
			require.Len(t, w.notified, 4)
			n := w.notice(schema.NoticeLike, w.post)
			assert.Equal(t, n.Place(), n.Acts[1].Place)
			at, err := id.Time(n.Place())
			require.NoError(t, err)
			assert.WithinDuration(t, time.Now(), at, 5*time.Second)
			assert.WithinDuration(t, time.Now().Add(90*24*time.Hour), n.TTL, 5*time.Second)
		})
	})
}

func TestAnUnlistedNoticeOutlivesOlderMessages(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			like := w.like("bob", true)
			w.settle()
			w.like("bob", false)
			w.settle()
			n := w.notice(schema.NoticeLike, w.post)
			assert.Empty(t, n.Place())
			pass(29 * 24 * time.Hour)
			w.send(like)
			w.settle()
			assert.Empty(t, w.likers(), "an older message brought a like back")
			pass(5 * 24 * time.Hour)
			w.like("bob", true) // the expired item is still in the table
			w.settle()
			assert.Equal(t, []string{"bob"}, w.likers())
			assert.Greater(t, w.notice(schema.NoticeLike, w.post).Revision, n.Revision, "a revision was met again")
		})
	})
}

func TestAPlaceIsAboveTheMark(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			mark := id.Floor(time.Now().Add(4 * time.Minute)) // the mark of another process, whose clock is ahead
			w.put(schema.NoticeMarkItem("ann", mark))
			w.like("bob", true)
			w.settle()
			assert.Greater(t, w.notice(schema.NoticeLike, w.post).Place(), mark)
		})
	})
}

func TestMutedAndBlockedUsersAreLeftOut(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			mute, _ := schema.Mute{User: "ann", Author: "bob", Since: time.Now()}.Items()
			w.put(mute)
			w.like("bob", true)
			w.like("carl", true)
			w.settle()
			assert.Equal(t, []string{"carl"}, w.likers())
			w.put(schema.Block{User: "ann", Other: "dora", By: time.Now()}.Item())
			w.send(&messages.Mentioned{UserID: "ann", ActorID: "dora", PostID: w.post}, &messages.Mentioned{UserID: "ann", ActorID: "bob", PostID: w.post})
			w.settle()
			assert.Empty(t, w.notice(schema.NoticeMention, w.post).Acts)
			// In one window a like is taken back and given again. Its user is muted before that.
			carl, _ := schema.Mute{User: "ann", Author: "carl", Since: time.Now()}.Items()
			w.put(carl)
			w.like("carl", false)
			w.like("carl", true)
			w.settle()
			assert.Equal(t, []string{"carl"}, w.likers())
		})
	})
}

func TestNobodyWithoutAProfileIsNotified(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			w.drop(schema.ProfileKey("ann"))
			w.send(&messages.Mentioned{UserID: "ann", ActorID: "dora", PostID: w.post})
			w.send(&messages.Followed{FollowerID: "bob", AuthorID: "ann", From: id.Min, MarkVersion: w.newID()})
			w.settle()
			assert.Empty(t, w.notice(schema.NoticeMention, w.post).Acts)
			assert.Empty(t, w.notice(schema.NoticeFollow, "").Acts)

			after := id.Floor(time.Now().Add(time.Minute))
			w.put(schema.Profile{User: "ann", CreatedAt: time.Now(), After: after}.Item())
			w.send(&messages.Followed{FollowerID: "bob", AuthorID: "ann", From: id.Min, MarkVersion: w.newID()})
			w.settle()
			assert.Greater(t, w.notice(schema.NoticeFollow, "").Place(), after, "a sweep of the former life would take it")
		})
	})
}

func TestACommentIsThereOrGoneByTheTable(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			comment := schema.Comment{ID: w.newID(), Post: w.post, Author: "bob", Text: "!"}
			made := &messages.Commented{PostID: w.post, AuthorID: "ann", CommentID: comment.ID, UserID: "bob"}
			w.send(made, &messages.Mentioned{UserID: "ann", ActorID: "bob", PostID: w.post, CommentID: comment.ID})
			pass(time.Minute)
			assert.Empty(t, w.notice(schema.NoticeComment, w.post).Acts, "the transaction has not happened")
			w.put(comment.Item())
			w.settle()
			assert.True(t, w.notice(schema.NoticeComment, w.post).Acts[0].Holds())
			assert.True(t, w.notice(schema.NoticeMention, w.post).Acts[0].Holds())

			gone := &messages.Commented{PostID: w.post, AuthorID: "ann", CommentID: comment.ID, UserID: "bob", Deleted: true}
			w.send(gone)
			pass(time.Minute)
			assert.True(t, w.notice(schema.NoticeComment, w.post).Acts[0].Holds())
			w.drop(comment.Item().Key)
			w.settle()
			assert.False(t, w.notice(schema.NoticeComment, w.post).Acts[0].Holds())
			w.put(comment.Item()) // the table has a deleted comment again
			w.send(made)
			w.settle()
			assert.False(t, w.notice(schema.NoticeComment, w.post).Acts[0].Holds(), "gone is final")

			start, received := time.Now(), w.receives
			w.send(&messages.Commented{PostID: w.post, AuthorID: "ann", CommentID: w.newID(), UserID: "bob"})
			w.settle()
			assert.GreaterOrEqual(t, time.Since(start), messages.MaxAhead, "it may still be made")
			assert.Less(t, w.receives-received, 15)
			assert.Len(t, w.notice(schema.NoticeComment, w.post).Acts, 1)
			assert.Empty(t, w.dead)
		})
	})
}

func TestTheEndOfAFollowIsThereByTheTable(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		holds := func() bool { return w.notice(schema.NoticeFollow, "").Acts[0].Holds() }
		follow := func() string {
			mark := schema.Mark{User: "bob", Author: "ann", Kind: schema.MarkBackfill, From: id.Min, Version: w.newID()}
			w.put(mark.Item())
			w.send(&messages.Followed{FollowerID: "bob", AuthorID: "ann", From: id.Min, MarkVersion: mark.Version})
			w.settle()
			return mark.Version
		}
		unfollow := func() (end func()) {
			mark := schema.Mark{User: "bob", Author: "ann", Kind: schema.MarkUnfollowed, Version: w.newID(), TTL: time.Now().Add(30 * 24 * time.Hour)}
			w.send(&messages.Unfollowed{FollowerID: "bob", AuthorID: "ann", MarkVersion: mark.Version})
			return func() { w.put(mark.Item()) }
		}
		w.run(func() {
			follow()
			end := unfollow()
			pass(time.Minute)
			assert.True(t, holds(), "the transaction has not happened")
			end()
			w.settle()
			assert.False(t, holds())
			place := w.notice(schema.NoticeFollow, "").Acts[0].Place

			follow()
			assert.True(t, holds())
			assert.Equal(t, place, w.notice(schema.NoticeFollow, "").Acts[0].Place, "it is no news")
			start := time.Now()
			unfollow()
			w.settle()
			assert.True(t, holds(), "the transaction never happened")
			assert.GreaterOrEqual(t, time.Since(start), messages.MaxAhead, "it might still have happened")

			end = unfollow()
			end()
			follow()
			received := w.receives
			w.settle()
			assert.True(t, holds(), "the follow is newer")
			assert.LessOrEqual(t, w.receives, received+1, "nothing waits for the end of a former follow")
			assert.Empty(t, w.dead)
		})
	})
}

func TestARepostIsThereOrGoneByTheTable(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		holds := func() bool { return w.notice(schema.NoticeRepost, w.post).Acts[0].Holds() }
		send := func(repost string, deleted bool) {
			w.send(&messages.Reposted{PostID: w.post, AuthorID: "ann", RepostID: repost, UserID: "bob", Deleted: deleted})
		}
		put := func(repost string, deleted bool) {
			w.put(schema.PostRef{ID: repost, Author: "bob", LikeShards: 1, RepostOf: w.post, Deleted: deleted}.Item())
		}
		w.run(func() {
			first := w.newID()
			put(first, false)
			send(first, false)
			w.settle()
			require.True(t, holds())
			place := w.notice(schema.NoticeRepost, w.post).Acts[0].Place
			send(first, true)
			pass(time.Minute)
			assert.True(t, holds(), "the transaction has not happened")
			put(first, true)
			w.settle()
			assert.False(t, holds())
			received := w.receives
			send(first, false)
			w.settle()
			assert.False(t, holds())
			assert.Equal(t, received+1, w.receives, "nothing waits for a repost that has ended")

			second := w.newID()
			put(second, false)
			send(second, false)
			w.settle()
			assert.True(t, holds())
			assert.Equal(t, place, w.notice(schema.NoticeRepost, w.post).Acts[0].Place, "it is no news")
			start := time.Now()
			send(second, true)
			w.settle()
			assert.True(t, holds(), "the transaction never happened")
			assert.GreaterOrEqual(t, time.Since(start), messages.MaxAhead, "it might still have happened")
			assert.Empty(t, w.dead)
		})
	})
}

func TestTheNoticeOfAPostThatIsGoneGoes(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			w.like("bob", true)
			w.settle()
			w.put(schema.PostRef{ID: w.post, Author: "ann", LikeShards: 1, Deleted: true}.Item())
			w.like("carl", true)
			w.settle()
			assert.Empty(t, w.notice(schema.NoticeLike, w.post).Acts)
			w.like("dora", true)
			w.settle()
			assert.Empty(t, w.notice(schema.NoticeLike, w.post).Acts)
			assert.Equal(t, []string{"written", "hidden", "hidden"}, strings.Fields(w.results()))
		})
	})
}

// I15: a notification expires with its post, whether it is listed or not, and no worker writes the
// notification after the end of the post.
func TestTheNoticeOfAPostWithAnEndExpiresWithIt(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		w.put(schema.PostRef{ID: w.post, Author: "ann", LikeShards: 1, End: end}.Item())
		w.clock = clock.New(w.now)
		w.cfg.Clock = w.clock
		w.run(func() {
			for _, liked := range []bool{true, false, true} {
				w.like("bob", liked)
				w.settle()
				assert.Equal(t, end, w.notice(schema.NoticeLike, w.post).TTL)
			}
			w.clock.Observe(time.Now(), 0)
			w.skew = 2 * time.Hour // the clock of this process jumps
			w.clock.Observe(time.Now(), 0)
			version, err := id.Named(time.Now(), "later")
			require.NoError(t, err)
			w.send(counted(version, w.post, "carl", true))
			pass(10 * time.Second)
			assert.Equal(t, 1, w.left(), "a clock in doubt ends no post")
			w.skew = 0
			w.settle()
			assert.Equal(t, []string{"carl", "bob"}, w.likers())
			pass(time.Hour)
			w.like("dora", true)
			w.settle()
			assert.Equal(t, []string{"carl", "bob"}, w.likers())
			assert.Equal(t, "hidden", w.results()[strings.LastIndex(w.results(), " ")+1:])
		})
	})
}

// Between a worker's read and the worker's put, another worker writes, the mark rises, or the worker sleeps.
func TestAPutMeetsWhatItRead(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			w.like("bob", true)
			w.settle()
			mark := ""
			w.beforePut = func(n int) error {
				if n == 2 { // another worker writes first
					other := w.notice(schema.NoticeLike, w.post)
					mark = w.newID()
					other.Acts = append([]schema.Act{{Version: w.newID(), Place: mark, State: "like", User: "zoe"}}, other.Acts...)
					other.Revision++
					w.put(other.Item())
					w.put(schema.NoticeMarkItem("ann", mark))
				}
				return nil
			}
			w.like("carl", true)
			w.settle()
			assert.ElementsMatch(t, []string{"zoe", "carl", "bob"}, w.likers())
			assert.Greater(t, w.notice(schema.NoticeLike, w.post).Place(), mark)
			assert.Len(t, w.notified, 2)
		})
	})
}

func TestAWorkerThatSleptReadsAgain(t *testing.T) {
	t.Parallel()
	for _, sleep := range []time.Duration{time.Minute + time.Second, 2 * time.Minute} {
		play(t, func(w *world) {
			w.run(func() {
				slept := false
				w.slowRead = func() {
					if !slept {
						slept = true
						<-time.After(sleep)
						w.put(schema.PostRef{ID: w.post, Author: "ann", LikeShards: 1, Deleted: true}.Item())
					}
				}
				w.like("bob", true)
				w.settle()
				assert.Empty(t, w.notice(schema.NoticeLike, w.post).Acts, "the purge would have missed it")
			})
		})
	}
}

func TestEveryFaultOfAWriteIsMadeGood(t *testing.T) {
	t.Parallel()
	for name, planned := range map[string]error{
		"refused": refused(), "lost answer": errLost, "unknown": errors.New("planned"),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.beforePut = func(n int) error {
					if n <= 3 {
						return planned
					}
					return nil
				}
				w.run(func() {
					w.like("bob", true)
					w.like("carl", true)
					w.settle()
					assert.Equal(t, []string{"carl", "bob"}, w.likers())
					sent := map[string]string{}
					for _, n := range w.notified {
						sent[n.ActorID] = n.EventID
					}
					for _, act := range w.notice(schema.NoticeLike, w.post).Acts {
						assert.Equal(t, act.Place, sent[act.User], "an action has a place, and nobody is told")
					}
					assert.Empty(t, w.dead)
				})
			})
		})
	}
}

func TestAHotRecipientHasLongerWindows(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		var open atomic.Bool
		w.beforePut = func(int) error {
			if open.Load() {
				return nil
			}
			return refused()
		}
		w.run(func() {
			w.like("bob", true)
			pass(2*time.Minute - time.Second) // writes happen after 2, 6, 14, 30, 62 and 122 s
			assert.Equal(t, 5, w.puts)
			assert.Equal(t, 1, w.receives, "no message is left for that")
			w.send(&messages.Followed{FollowerID: "bob", AuthorID: "zoe", From: id.Min, MarkVersion: w.newID()})
			w.put(schema.Profile{User: "zoe", CreatedAt: time.Now()}.Item())
			open.Store(true)
			w.settle()
			assert.Equal(t, []string{"bob"}, w.likers())
			for i := range 5 { // each accepted write halves the window
				w.like(fmt.Sprint("fan", i), true)
				w.settle()
			}
			puts := w.puts
			w.like("carl", true)
			pass(3 * time.Second)
			assert.Equal(t, puts+1, w.puts, "windows are short again")
			w.settle()
		})
	})
}

// A write that the throttle did not send counts as refused: its window collects again.
func TestAWriteThatWasNotSentWaitsInItsWindow(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.beforePut = func(n int) error {
			if n == 1 {
				return &throttle.ShortError{Op: table.OpPut}
			}
			return nil
		}
		w.run(func() {
			w.like("bob", true)
			w.settle()
			assert.Equal(t, []string{"bob"}, w.likers())
			assert.Equal(t, 1, w.receives, "no message is left for that")
		})
	})
}

// The refused writes of one user hold 500 messages at most, even if the messages are about many posts.
func TestRefusedWritesOfOneUserHoldFewMessages(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.cfg.MaxMessages = 2000
		var open atomic.Bool
		w.beforePut = func(int) error {
			if open.Load() {
				return nil
			}
			return refused()
		}
		var held atomic.Int64
		w.cfg.Held = func(n int) { held.Add(int64(n)) }
		w.run(func() {
			for i := range 1500 {
				post := w.newID()
				w.put(schema.PostRef{ID: post, Author: "ann", LikeShards: 1}.Item())
				w.send(counted(w.newID(), post, fmt.Sprint("fan", i), true))
			}
			pass(2*time.Second + 900*time.Millisecond) // the first windows have ended
			assert.LessOrEqual(t, held.Load(), int64(500))
			open.Store(true)
		})
	})
}

func TestAWindowOfManyMessagesIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.cfg.Window = time.Hour
		w.run(func() {
			for i := range 500 {
				w.like(fmt.Sprintf("fan%d", i), true)
			}
			pass(time.Second)
			assert.Equal(t, 1, w.puts)
			assert.Zero(t, w.left())
		})
	})
}

func TestNoMoreMessagesAreHeldThanMayBe(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		var held, most atomic.Int64
		w.cfg.Window, w.cfg.MaxMessages = time.Hour, 10
		w.cfg.Held = func(n int) {
			if now := held.Add(int64(n)); now > most.Load() {
				most.Store(now)
			}
		}
		w.run(func() {
			for i := range 40 {
				w.like(fmt.Sprintf("fan%d", i), true)
			}
			w.settle()
			assert.Equal(t, int64(10), most.Load())
			assert.Zero(t, held.Load())
		})
	})
}

func TestAStopWritesWhatIsHeld(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.cfg.Window, w.cfg.Grace = time.Hour, time.Minute
		w.run(func() {
			w.like("bob", true)
			pass(time.Second)
			assert.Empty(t, w.likers())
		})
		assert.Equal(t, []string{"bob"}, w.likers())
		assert.Zero(t, w.left())
	})
}

func TestAnEventThatIsNotSentKeepsItsMessage(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.unsent = errors.New("planned")
		w.run(func() {
			w.like("bob", true)
			pass(10 * time.Second)
			assert.Equal(t, []string{"bob"}, w.likers())
			assert.NotZero(t, w.left())
			w.unsent = nil
			w.settle()
			ids := map[string]bool{}
			for _, n := range w.notified {
				ids[n.EventID] = true
			}
			assert.Len(t, ids, 1, "a repetition has another id")
		})
	})
}

func TestAClockInDoubtGivesNoPlace(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.clock = clock.New(w.now)
		w.cfg.Clock = w.clock
		w.run(func() {
			w.like("bob", true)
			w.settle()
			w.clock.Observe(time.Now(), 0)
			w.skew = time.Hour // the clock of this process jumps
			w.clock.Observe(time.Now(), 0)
			version, err := id.Named(time.Now(), "later")
			require.NoError(t, err)
			like := func(user string, liked bool) { w.send(counted(version, w.post, user, liked)) }
			like("bob", false)
			like("carl", true)
			pass(10 * time.Second)
			assert.Empty(t, w.likers(), "a take-back needs no place")
			assert.Equal(t, 1, w.left())
			w.skew = 0
			w.settle()
			assert.Equal(t, []string{"carl"}, w.likers())
		})
	})
}

// A comment's event that seems old only because the clock jumped ahead is not dropped.
func TestAClockInDoubtDropsNoEventOfAComment(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.clock = clock.New(w.now)
		w.cfg.Clock = w.clock
		w.run(func() {
			comment := schema.Comment{ID: w.newID(), Post: w.post, Author: "bob", Text: "!"}
			w.clock.Observe(time.Now(), 0)
			w.skew = time.Hour
			w.clock.Observe(time.Now(), 0)
			e := &messages.Commented{Header: messages.Header{EventID: comment.ID, Time: time.Now()}, PostID: w.post, AuthorID: "ann", CommentID: comment.ID, UserID: "bob"}
			w.send(e)
			pass(10 * time.Second)
			assert.Equal(t, 1, w.left(), "the comment may still be made")
			w.skew = 0
			w.put(comment.Item())
			w.settle()
			assert.Len(t, w.notice(schema.NoticeComment, w.post).Acts, 1)
		})
	})
}

// TestANotificationDoesNotExpireByAClockInDoubt lets the clock jump beyond the end of a notification
// whose like was taken back: the like keeps its place (I14).
func TestANotificationDoesNotExpireByAClockInDoubt(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.clock = clock.New(w.now)
		w.cfg.Clock = w.clock
		w.run(func() {
			w.like("bob", true)
			w.settle()
			w.like("bob", false)
			w.settle()
			pass(20 * 24 * time.Hour)
			w.clock.Observe(time.Now(), 0)
			w.skew = 20 * 24 * time.Hour
			w.clock.Observe(time.Now(), 0)
			version, err := id.Named(time.Now(), "later")
			require.NoError(t, err)
			w.send(counted(version, w.post, "carl", false))
			w.settle()
			w.skew = 0
			w.like("bob", true)
			w.settle()
			assert.Equal(t, []string{"bob"}, w.likers())
			assert.Len(t, w.notified, 1, "a like that was given again is no news")
		})
	})
}

func TestAMessageOfAnotherTopicIsADeadLetter(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			w.send(&messages.Seen{UserID: "ann"})
			w.settle()
			require.Len(t, w.dead, 1)
			assert.Contains(t, w.dead[0], "Seen on notices")
		})
	})
}

func TestRecipients(t *testing.T) {
	t.Parallel()
	assert.Empty(t, notify.Recipient(&messages.LikeCounted{AuthorID: "ann", UserID: "ann"}), "nobody is notified of the own actions")
	assert.Equal(t, "ann", notify.Recipient(&messages.LikeCounted{AuthorID: "ann", UserID: "bob"}))
	assert.Equal(t, "ann", notify.Recipient(&messages.Followed{AuthorID: "ann", FollowerID: "bob"}))
	assert.Equal(t, "ann", notify.Recipient(&messages.Commented{AuthorID: "ann", UserID: "bob"}))
	assert.Equal(t, "ann", notify.Recipient(&messages.Mentioned{UserID: "ann", ActorID: "bob"}))
	assert.Equal(t, "ann", notify.Recipient(&messages.Reposted{AuthorID: "ann", UserID: "bob"}))
	assert.Empty(t, notify.Recipient(&messages.PostDelivered{AuthorID: "ann"}))
}

// The event of a repost that has ended, and whose end nobody has told, makes no notification.
func TestTheEventOfAnEndedRepostMakesNoNotification(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.run(func() {
			first := w.newID()
			w.put(schema.PostRef{ID: first, Author: "bob", LikeShards: 1, RepostOf: w.post, Deleted: true}.Item())
			w.send(&messages.Reposted{PostID: w.post, AuthorID: "ann", RepostID: first, UserID: "bob"})
			w.settle()
			for _, a := range w.notice(schema.NoticeRepost, w.post).Acts {
				assert.False(t, a.Holds())
			}
		})
	})
}
