package audit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/ops/audit"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// damage is a damage of the town. No damage except these touches the last post of the town.
type damage struct {
	name string
	kind audit.Kind
	// plant makes the damage, and returns the key of the expected finding.
	plant func(w *world, posts []string) table.Key
	// right, if not nil, reports whether users see the right data after the repair.
	right func(w *world, posts []string) bool
}

// remedies returns the calls of operators and users for the kinds of damage that no repair mends.
func remedies() map[audit.Kind]func(w *world) {
	return map[audit.Kind]func(w *world){
		audit.ProfileMissing: func(w *world) {
			_, sum := w.walk(true)
			assert.Zero(w.t, sum.Mended[audit.ProfileMissing])
			assert.Nil(w.t, w.item(schema.ProfileKey("fan7")), "a repair made a profile")
			w.people("fan7")
		},
	}
}

func attr(name string, v table.Value) table.Attr { return table.Attr{Name: name, Value: v} }

func comments(w *world, post string) []table.Item {
	items, _, err := table.Collect(w.store.Query(w.t.Context(), table.Query{PK: schema.CommentsPK(post), Consistent: true}), 0)
	w.must(err)
	return items
}

// shown returns the number of comments that readers see.
func shown(w *world, post string) int64 {
	view, err := w.PostView(w.t.Context(), access.As("eve"), post)
	w.must(err)
	return view.CommentCount
}

func atHome(w *world, user, post string) bool {
	list, err := w.Home(w.t.Context(), user, home.Query{}, page.Request{Limit: 100})
	w.must(err)
	return slices.ContainsFunc(list.Items, func(it feed.HomeItem) bool { return it.Post.ID == post })
}

func damages() []damage {
	return []damage{
		{"the edge under the author is lost", audit.FollowHalf, func(w *world, _ []string) table.Key {
			key := schema.FollowerKey("ann", "fan3")
			w.drop(key)
			return key
		}, func(w *world, _ []string) bool {
			post := w.post("ann")
			w.quiet()
			return atHome(w, "fan3", post)
		}},
		{"the edge under the follower is lost", audit.FollowHalf, func(w *world, _ []string) table.Key {
			key := schema.FollowingKey("fan4", "ann")
			w.drop(key)
			return key
		}, func(w *world, posts []string) bool { return atHome(w, "fan4", posts[0]) }},
		{"an edge is left after an unfollow", audit.FollowHalf, func(w *world, _ []string) table.Key {
			w.put(schema.FollowerItem("eve", "fan0", w.now()))
			return schema.FollowingKey("fan0", "eve")
		}, func(w *world, _ []string) bool { return w.item(schema.FollowerKey("eve", "fan0")) == nil }},
		{"a mark hides a followed author", audit.HomeMark, func(w *world, _ []string) table.Key {
			m := schema.Mark{User: "fan5", Author: "ann", Kind: schema.MarkUnfollowed, Version: "0", TTL: w.now().Add(timelineTTL)}
			w.put(m.Item())
			return m.Item().Key
		}, func(w *world, posts []string) bool { return atHome(w, "fan5", posts[1]) }},
		{"a mark merges in a stranger", audit.HomeMark, func(w *world, _ []string) table.Key {
			m := schema.Mark{User: "eve", Author: "ann", Kind: schema.MarkPulled, V: 1, From: "0", Version: "0"}
			w.put(m.Item())
			return m.Item().Key
		}, func(w *world, posts []string) bool { return !atHome(w, "eve", posts[1]) }},
		{"a follower of a pulled author lacks the mark", audit.HomeMark, func(w *world, _ []string) table.Key {
			w.people("sue", "tom")
			w.must(w.Follow(w.t.Context(), "tom", "sue"))
			w.quiet()
			key := schema.MarkKey("tom", "sue")
			w.drop(key)
			w.put(schema.Mode{Author: "sue", State: schema.ModePull, V: 1, Since: "0", At: w.now()}.Item())
			return key
		}, func(w *world, _ []string) bool {
			return w.item(schema.MarkKey("tom", "sue")).Str(schema.AttrKind) == string(schema.MarkPulled)
		}},
		{"one side of a block is lost", audit.BlockHalf, func(w *world, _ []string) table.Key {
			w.must(w.Block(w.t.Context(), "fan8", "eve"))
			w.drop(schema.BlockKey("fan8", "eve"))
			return schema.BlockKey("fan8", "eve")
		}, func(w *world, _ []string) bool {
			l, err := w.Blocks(w.t.Context(), "fan8", page.Request{})
			w.must(err)
			return len(l.Items) == 1
		}},
		{"the sides of a block do not agree", audit.BlockHalf, func(w *world, _ []string) table.Key {
			w.must(w.Block(w.t.Context(), "fan8", "eve"))
			w.change(schema.BlockKey("eve", "fan8"), []table.Attr{attr(schema.AttrBlockedBy, table.N(1))}, nil)
			return schema.BlockKey("eve", "fan8")
		}, nil},
		{"the count of posts is wrong", audit.UserCount, func(w *world, _ []string) table.Key {
			w.change(schema.CountsKey("ann"), nil, []table.Attr{attr(schema.AttrPosts, table.N(3))})
			return schema.CountsKey("ann")
		}, nil},
		{"the count of followees is wrong", audit.UserCount, func(w *world, _ []string) table.Key {
			w.change(schema.CountsKey("fan6"), nil, []table.Attr{attr(schema.AttrFollowing, table.N(-1))})
			return schema.CountsKey("fan6")
		}, nil},
		{"a share of the follower count is lost", audit.UserCount, func(w *world, _ []string) table.Key {
			w.drop(schema.FollowerCountKey("ann", "fan1"))
			return schema.FollowerCountKeys("ann")[0]
		}, func(w *world, _ []string) bool {
			u, err := w.User(w.t.Context(), "ann")
			w.must(err)
			return u.Counts.Followers == 9
		}},
		{"the count of silent followers is wrong", audit.UserCount, func(w *world, _ []string) table.Key {
			w.change(schema.FollowerCountKeys("ann")[0], nil, []table.Attr{attr(schema.AttrSilent, table.N(1))})
			return schema.FollowerCountKeys("ann")[0]
		}, func(w *world, _ []string) bool {
			u, err := w.User(w.t.Context(), "ann")
			w.must(err)
			return u.Counts.Followers == 9
		}},
		{"a profile is lost", audit.ProfileMissing, func(w *world, _ []string) table.Key {
			w.drop(schema.ProfileKey("fan7"))
			return schema.ProfileKey("fan7")
		}, nil},
		{"a post by id is lost", audit.PostID, func(w *world, posts []string) table.Key {
			w.drop(schema.PostByIDKey(posts[0]))
			return schema.PostByIDKey(posts[0])
		}, func(w *world, posts []string) bool {
			_, err := w.Post(w.t.Context(), access.Viewer{}, posts[0])
			return err == nil
		}},
		{"a deleted post is back in its list", audit.PostID, func(w *world, _ []string) table.Key {
			post := w.post("ann")
			it := w.item(schema.PostKey("ann", post))
			w.must(w.DeletePost(w.t.Context(), "ann", post))
			w.put(*it)
			return schema.PostByIDKey(post)
		}, nil},
		{"a post is lost", audit.PostMissing, func(w *world, posts []string) table.Key {
			w.drop(schema.PostKey("ann", posts[2]))
			return schema.PostKey("ann", posts[2])
		}, func(w *world, posts []string) bool {
			return w.item(schema.PostByIDKey(posts[2])).Int(schema.AttrDeleted) == 1
		}},
		{"an entry of a follower is lost", audit.EntryMissing, func(w *world, posts []string) table.Key {
			w.drop(entryKey("fan8", posts[3], "ann"))
			return entryKey("fan8", posts[3], "ann")
		}, func(w *world, posts []string) bool { return atHome(w, "fan8", posts[3]) }},
		{"the author's own entry is lost", audit.EntryMissing, func(w *world, posts []string) table.Key {
			w.drop(entryKey("ann", posts[3], "ann"))
			return entryKey("ann", posts[3], "ann")
		}, func(w *world, posts []string) bool { return atHome(w, "ann", posts[3]) }},
		{"an entry has no post", audit.EntryOrphan, func(w *world, posts []string) table.Key {
			key := entryKey("fan1", madeUp(posts[3]), "ann")
			w.put(table.Item{Key: key, Attrs: schema.EntryAttrs(w.now().Add(time.Hour), 1)})
			return key
		}, nil},
		{"an entry shows a stranger", audit.EntryUnfollowed, func(w *world, posts []string) table.Key {
			key := entryKey("eve", posts[3], "ann")
			w.drop(schema.MarkKey("eve", "ann")) // the repair of a mark has left this mark
			w.put(table.Item{Key: key, Attrs: schema.EntryAttrs(w.now().Add(time.Hour), 1)})
			return key
		}, func(w *world, posts []string) bool { return !atHome(w, "eve", posts[3]) }},
		{"a like count is wrong", audit.LikeCount, func(w *world, posts []string) table.Key {
			w.change(schema.LikeCountKey(posts[4]), nil, []table.Attr{attr(schema.AttrLikes, table.N(40))})
			return schema.LikeCountKey(posts[4])
		}, func(w *world, posts []string) bool {
			w.must(w.Like(w.t.Context(), "fan4", posts[4]))
			w.must(w.Unlike(w.t.Context(), "fan0", posts[4]))
			w.quiet()
			n, err := w.LikeCount(w.t.Context(), access.Viewer{}, posts[4])
			w.must(err)
			return n.Count == 2
		}},
		{"the counts of kinds are wrong", audit.LikeCount, func(w *world, posts []string) table.Key {
			w.change(schema.LikeCountKey(posts[4]), nil, []table.Attr{attr(schema.AttrLikes, table.N(-1)), attr(schema.AttrCount("love"), table.N(1)), attr(schema.AttrCount("wow"), table.N(-7))})
			return schema.LikeCountKey(posts[4])
		}, func(w *world, posts []string) bool {
			counts := schema.ParseLikeCount(w.item(schema.LikeCountKey(posts[4]))).Kinds
			return counts["like"] == 2 && counts["love"] == 0 && counts["wow"] == 0
		}},
		{"a reaction was counted as another kind", audit.LikeCount, func(w *world, posts []string) table.Key {
			w.change(schema.LikeKey(posts[4], "fan4", 1), []table.Attr{attr(schema.AttrReaction, table.S("love"))}, nil)
			return schema.LikeCountKey(posts[4])
		}, func(w *world, posts []string) bool {
			counts := schema.ParseLikeCount(w.item(schema.LikeCountKey(posts[4]))).Kinds
			return counts["like"] == 1 && counts["love"] == 1
		}},
		{"a counted like is lost", audit.LikeCount, func(w *world, posts []string) table.Key {
			w.drop(schema.LikeKey(posts[5], "fan0", 1))
			return schema.LikeCountKey(posts[5])
		}, nil},
		{"an aggregator died before it counted a like, 40 days ago", audit.LikeUncounted, func(w *world, posts []string) table.Key {
			w.put(uncounted(w, posts[4], "fan6", 40*24*time.Hour).Item())
			return schema.LikeCountKey(posts[4])
		}, func(w *world, posts []string) bool {
			n, err := w.LikeCount(w.t.Context(), access.Viewer{}, posts[4])
			w.must(err)
			w.must(w.Unlike(w.t.Context(), "fan6", posts[4]))
			w.quiet()
			return n.Count == 2 // the reaction of fan4 is love, and does not count as a like
		}},
		{"a like is not in the index", audit.LikeIndex, func(w *world, posts []string) table.Key {
			w.change(schema.LikeKey(posts[6], "fan0", 1), nil, nil, table.AttrGSI1PK, table.AttrGSI1SK)
			return schema.LikeKey(posts[6], "fan0", 1)
		}, nil},
		{"a like that was taken back is in the index", audit.LikeIndex, func(w *world, posts []string) table.Key {
			key := schema.LikeKey(posts[6], "fan2", 1)
			w.change(key, []table.Attr{attr(table.AttrGSI1PK, table.S(schema.UserLikesPK("fan2"))), attr(table.AttrGSI1SK, table.S(schema.PostSK(posts[6])))}, nil)
			return key
		}, nil},
		{"a comment is in another user's index", audit.CommentIndex, func(w *world, posts []string) table.Key {
			it := comments(w, posts[6])[0]
			w.change(it.Key, []table.Attr{attr(table.AttrGSI1PK, table.S(schema.UserCommentsPK("eve")))}, nil)
			return it.Key
		}, nil},
		{"a notification lies at another place", audit.NoticeIndex, func(w *world, posts []string) table.Key {
			n := schema.Notice{User: "ann", Kind: schema.NoticeLike, Target: posts[6], Revision: 1, Acts: []schema.Act{{Version: posts[6], Place: posts[6], State: "like", User: "fan0"}}}
			w.put(n.Item())
			w.change(n.Key(), []table.Attr{attr(table.AttrGSI1SK, table.S(posts[7]))}, nil)
			return n.Key()
		}, nil},
		{"the number of a post's comments is wrong", audit.CommentCount, func(w *world, posts []string) table.Key {
			key := schema.PostKey("ann", posts[6])
			w.change(key, nil, []table.Attr{attr(schema.AttrComments, table.N(7))})
			return key
		}, func(w *world, posts []string) bool { return shown(w, posts[6]) == 1 }},
		{"the number of a post's comments is lost", audit.CommentCount, func(w *world, posts []string) table.Key {
			key := schema.PostKey("ann", posts[6])
			w.change(key, nil, nil, schema.AttrComments)
			return key
		}, func(w *world, posts []string) bool { return shown(w, posts[6]) == 1 }},
		{"a counted comment is lost", audit.CommentCount, func(w *world, posts []string) table.Key {
			w.drop(comments(w, posts[7])[0].Key)
			return schema.PostKey("ann", posts[7])
		}, func(w *world, posts []string) bool { return shown(w, posts[7]) == 0 }},
	}
}

// uncounted returns a like that an incarnation stamped at the time now minus ago, and never counted.
func uncounted(w *world, post, user string, ago time.Duration) schema.Like {
	w.t.Helper()
	at := time.Now().Add(-ago)
	version, err := id.NewGenerator(func() time.Time { return at }).New()
	w.must(err)
	inc := strconv.FormatInt(at.Unix()/(24*60*60), 36) + "00000000"
	return schema.Like{Post: post, User: user, LikeShards: 1, Kind: schema.KindLike, Version: version, Flush: schema.Flush{Inc: inc, Seq: 1}, Indexed: true}
}

// madeUp returns the id of a post that never existed.
func madeUp(post string) string {
	if last := post[len(post)-1]; last == '0' {
		return post[:len(post)-1] + "1"
	}
	return post[:len(post)-1] + "0"
}

// staleWalks is the number of walks in which a backend may miss new damage.
var staleWalks = map[string]int{"stale": 8}

// The next walk finds each kind of damage, with the right key. Walks with repairs leave no finding.
func TestEachKindOfDamageIsFoundInOneWalkAndMended(t *testing.T) {
	t.Parallel()
	planted := map[audit.Kind]bool{}
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, posts := town(t, open(t))
				all, sum := w.walk(false)
				require.Empty(t, all, "the town before any damage")
				assert.Positive(t, sum.ReadUnits)
				assert.Zero(t, sum.Undecided)
				for _, d := range damages() {
					planted[d.kind] = true
					w.quiet()
					key := d.plant(w, posts)
					all, sum := w.walk(false)
					isFound := func() bool {
						return slices.ContainsFunc(all, func(f audit.Finding) bool { return f.Kind == d.kind && f.PK == key.PK && f.SK == key.SK })
					}
					for range staleWalks[name] { // a stale read may miss new damage
						if !isFound() {
							all, sum = w.walk(false)
						}
					}
					require.Truef(t, isFound(), "%s: found %+v", d.name, all)
					assert.Equalf(t, len(all), sum.Left, "%s: a walk that does not repair left", d.name)
					if remedy := remedies()[d.kind]; remedy != nil {
						remedy(w)
					}
					for walks, clean := 0, 0; clean <= staleWalks[name]; walks++ {
						require.Lessf(t, walks, 40, "%s: still found %+v", d.name, all)
						if all, sum = w.walk(true); len(all) == 0 {
							clean++
							continue
						}
						assert.Zerof(t, sum.Left, "%s: not mended: %+v", d.name, all)
						clean = 0
						w.quiet()
					}
					if d.right != nil {
						w.until(d.name+": what users see", func() bool { return d.right(w, posts) })
					}
				}
			})
		})
	}
	assert.Len(t, planted, len(audit.Kinds()), "each kind is planted")
}

// beforeRepair is a table that calls do once, just before the first transaction that changes an item.
type beforeRepair struct {
	table.Store
	do func()
}

func (s *beforeRepair) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if do := s.do; do != nil && in.Ops[0].Check == nil {
		s.do = nil
		do()
	}
	return s.Store.Transact(ctx, in)
}

// Just before the repair of a comment count, the post is deleted, or another repair runs. The late repair
// neither restores a deleted item nor counts a comment twice.
func TestARepairOfACommentCountThatComesTooLateChangesNothing(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(w *world, post string){
		"the post is deleted": func(w *world, post string) { w.must(w.DeletePost(w.t.Context(), "ann", post)) },
		"another repair":      func(w *world, _ string) { w.walk(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, posts := town(t, tabletest.NewMemory())
				w.quiet()
				key := schema.PostKey("ann", posts[6])
				w.change(key, nil, []table.Attr{attr(schema.AttrComments, table.N(7))})
				var after *table.Item
				late := w.cfg
				late.Store = &beforeRepair{w.store, func() { meanwhile(w, posts[6]); after = w.item(key) }}
				found := 0
				_, err := audit.New(late).Run(t.Context(), audit.Walk{Repair: true, Found: func(f audit.Finding) error {
					found++
					assert.Equal(t, audit.CommentCount, f.Kind)
					assert.False(t, f.Mended)
					return nil
				}})
				w.must(err)
				assert.Equal(t, 1, found)
				assert.Equal(t, after, w.item(key))
			})
		})
	}
}

// Workers, clients and walks run concurrently. No item is damaged, so a walk must find nothing, even while
// work is unfinished.
func TestASoundTableUnderTrafficHasNoFinding(t *testing.T) {
	t.Parallel()
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, posts := town(t, open(t))
				sweep := queue.Handler(func(ctx context.Context, e messages.Event) error {
					done, err := w.Forget(ctx, e.(*messages.UserForgotten).UserID, e.Head().EventID, 3)
					if err == nil && done.Sum() > 0 {
						return &queue.Later{After: time.Millisecond, Reason: "something of the user may be left"}
					}
					return err
				})
				w.sweep.Store(&sweep)
				var clients sync.WaitGroup
				for i := range 3 {
					clients.Go(func() {
						fan, rng := fmt.Sprintf("fan%d", i), rand.New(rand.NewPCG(uint64(i), 1))
						for range 60 {
							_ = w.act(fan, posts, rng) // a call that conflicts with other calls has no effect
						}
					})
				}
				over := make(chan struct{})
				go func() { clients.Wait(); close(over) }()
				decided := 0
				for working := true; working; {
					select {
					case <-over:
						working = false
					default:
					}
					all, sum := w.walk(true)
					assert.Empty(t, all)
					decided += sum.Items - sum.Undecided
				}
				w.quiet()
				w.ahead.Store(int64(2 * time.Hour)) // now every follow is older than every post
				all, sum := w.walk(true)
				assert.Empty(t, all, "once quiet")
				assert.Zero(t, sum.Undecided, "once quiet")
				assert.Positive(t, decided)
			})
		})
	}
}

// act makes one random call of a fan.
func (w *world) act(fan string, posts []string, rng *rand.Rand) error {
	ctx := context.Background()
	post := posts[rng.IntN(len(posts))]
	author := []string{"ann", "eve", "fan5"}[rng.IntN(3)]
	switch rng.IntN(13) {
	case 0, 1:
		return w.Follow(ctx, fan, author)
	case 2:
		return w.Unfollow(ctx, fan, author)
	case 3:
		return w.Like(ctx, fan, post)
	case 4:
		return w.Unlike(ctx, fan, post)
	case 5:
		c, err := w.CreateComment(ctx, fan, post, "yes")
		if err != nil || rng.IntN(2) == 0 {
			return err
		}
		return w.DeleteComment(ctx, fan, post, c.ID)
	case 6:
		do := []func(context.Context, string, string) error{w.Mute, w.Unmute, w.Unblock}[rng.IntN(3)]
		return do(ctx, fan, author)
	case 7:
		return w.Block(ctx, fan, author)
	case 8: // the removal of a user, and perhaps the user's return during the sweeps
		who := []string{"eve", "fan5", fan}[rng.IntN(3)]
		if _, err := w.AskToForget(ctx, who); err != nil || rng.IntN(3) == 0 {
			return err
		}
		_, err := w.PutProfile(ctx, who, feed.ProfileInput{Name: who})
		return err
	case 9, 10: // the import of a follow, and perhaps a request for its backfill
		from := id.Min
		if author == "ann" {
			from = post
		}
		if _, err := w.ImportFollow(ctx, feed.PastFollow{Follower: fan, Author: author, From: from, Since: time.Unix(1e8, 0)}); err != nil || rng.IntN(3) == 0 {
			return err
		}
		return w.askForBackfill(ctx, fan, author)
	}
	p, err := w.CreatePost(ctx, author, feed.PostInput{Content: feed.Content{Text: "more"}})
	if err != nil || rng.IntN(2) == 0 {
		return err
	}
	return w.DeletePost(ctx, author, p.ID)
}
