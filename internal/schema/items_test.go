package schema_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func attr(name string, v table.Value) table.Attr { return table.Attr{Name: name, Value: v} }

// someTime draws a time with the precision that items keep: milliseconds or seconds.
func someTime(unit time.Duration) *rapid.Generator[time.Time] {
	return rapid.OneOf(rapid.Just(time.Time{}), rapid.Map(rapid.Int64Range(1, 4_000_000_000), func(s int64) time.Time {
		return time.Unix(s, 0).Add(unit / 2).Truncate(unit).UTC()
	}))
}

// comesBack fails unless parse returns the encoded value.
func comesBack[T any](t *rapid.T, want T, it table.Item, parse func(table.Item) (T, error)) {
	t.Helper()
	assert.NoErrorf(t, it.Validate(), "%T cannot be stored", want)
	got, err := parse(it)
	assert.NoErrorf(t, err, "%+v was refused", want)
	assert.Emptyf(t, cmp.Diff(want, got), "%T differs (-want +got)", want)
}

func TestItemsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, v := userGen.Draw(t, "u"), userGen.Draw(t, "v")
		p, q := ulidGen.Draw(t, "p"), ulidGen.Draw(t, "q")
		text := rapid.String().Draw(t, "text")
		at, ttl := someTime(time.Millisecond).Draw(t, "at"), someTime(time.Second).Draw(t, "ttl")
		shards, n, yes := rapid.IntRange(1, 99).Draw(t, "shards"), rapid.Int64().Draw(t, "n"), rapid.Bool().Draw(t, "yes")
		side := rapid.IntRange(1, 65535).Draw(t, "side")
		born := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "born")).UTC()

		profile := schema.Profile{User: u, Name: text, Bio: text, ImageURL: text, CreatedAt: born}
		comesBack(t, profile, profile.Item(), schema.ParseProfile)
		profile.After, profile.Former = q, schema.Removal{User: u, Event: p, At: born}
		comesBack(t, profile, profile.Item(), schema.ParseProfile)
		comesBack(t, schema.Edge{Other: v, Since: born}, schema.FollowerItem(u, v, born), schema.ParseEdge)
		day := schema.DayOf(born)
		comesBack(t, schema.Edge{Other: v, Since: born, Until: day}, schema.DatedFollowerItem(u, v, born, day), schema.ParseEdge)
		presence := schema.Presence{User: u, State: rapid.SampledFrom([]schema.PresenceState{schema.PresenceHere, schema.PresenceReturning}).Draw(t, "state"), Until: day, V: n, At: at}
		comesBack(t, presence, presence.Item(), schema.ParsePresence)
		presence.Lo, presence.Hi = p, q
		comesBack(t, presence, presence.Item(), schema.ParsePresence)
		block := schema.Block{User: u, Other: v, Since: time.UnixMilli(1).UTC(), By: at}
		comesBack(t, block, block.Item(), schema.ParseBlock)
		block.Since, block.By = at, born
		comesBack(t, block, block.Item(), schema.ParseBlock)
		mute, muter := schema.Mute{User: u, Author: v, Since: born}.Items()
		comesBack(t, schema.Mute{User: u, Author: v, Since: born}, mute, schema.ParseMute)
		comesBack(t, schema.Mute{User: u, Author: v, Since: born}, muter, schema.ParseMute)
		marker := schema.Marker{User: u, Name: v, Position: p, At: born}
		comesBack(t, marker, marker.Item(), schema.ParseMarker)
		change := schema.Change{Event: q, Post: p, Author: u, Deleted: yes}
		comesBack(t, change, change.Item(born), schema.ParseChange)
		repost := schema.Repost{User: u, Of: p, R: q, V: rapid.SampledFrom([]string{"", p}).Draw(t, "version")}
		comesBack(t, repost, repost.Item(), schema.ParseRepost)
		bookmark := schema.Bookmark{User: u, Post: p, V: q}
		listed, byPost := bookmark.Items()
		comesBack(t, bookmark, listed, schema.ParseBookmark)
		comesBack(t, bookmark, byPost, schema.ParseBookmark)
		comesBack(t, schema.Edge{Other: v, Since: born, From: p}, schema.FollowingItem(u, v, born, p), schema.ParseEdge)
		comesBack(t, schema.Edge{Other: v, Since: born, From: p}, schema.ImportedFollowingItem(u, v, born, p, born), schema.ParseEdge)
		imported := schema.Edge{Other: v, Since: born, From: p, V: born.Add(time.Minute)}
		comesBack(t, imported, schema.ImportedFollowingItem(u, v, born, p, imported.V), schema.ParseEdge)
		post := schema.Post{ID: p, Author: u, Content: schema.Content{Text: text, Images: []schema.Image{{URL: text, Alt: text, Width: &side, Height: &side}}}, EditedAt: at, LikeShards: shards, Comments: n}
		comesBack(t, post, post.Item(), schema.ParsePost)
		custom := rapid.SampledFrom([]string{"", `{}`, `{"a":[1,"` + strings.Repeat("x", 4000) + `"]}`}).Draw(t, "custom")
		mentions := rapid.SampledFrom([][]string{nil, {v}, {v, u, "auth0|5f7c"}}).Draw(t, "mentions")
		post.Kind, post.Data, post.Mentions = rapid.SampledFrom([]string{"", "album"}).Draw(t, "post kind"), schema.Data(custom), mentions
		comesBack(t, post, post.Item(), schema.ParsePost)
		profile.Data = custom
		comesBack(t, profile, profile.Item(), schema.ParseProfile)
		ref := schema.PostRef{ID: p, Author: u, LikeShards: shards, Mentions: mentions != nil, Deleted: yes, TTL: ttl}
		comesBack(t, ref, ref.Item(), schema.ParsePostRef)
		if ref.Deleted {
			ref.TakenDown = &schema.TakeDown{Reason: "a reason", By: "moderation", At: at}
			comesBack(t, ref, ref.Item(), schema.ParsePostRef)
		}
		comment := schema.Comment{ID: q, Post: p, Author: u, Text: text, Data: custom, Mentions: mentions}
		comesBack(t, comment, comment.Item(), schema.ParseComment)
		entry := schema.Entry{Post: p, Author: v, LikeShards: shards}
		entryKey := table.Key{PK: schema.TimelinePK(u), SK: schema.EntrySK(p, v)}
		comesBack(t, entry, table.Item{Key: entryKey, Attrs: schema.EntryAttrs(born, shards)}, schema.ParseEntry)
		kind := rapid.SampledFrom([]schema.MarkKind{schema.MarkUnfollowed, schema.MarkBackfill, schema.MarkPulled}).Draw(t, "kind")
		mark := schema.Mark{User: u, Author: v, Kind: kind, From: p, Pull: p, Version: q, Until: ttl, TTL: ttl}
		switch kind {
		case schema.MarkUnfollowed:
		case schema.MarkPulled:
			mark.V = 1 + n&7
		case schema.MarkBackfill:
			mark.FollowID = rapid.SampledFrom([]string{"", p, q}).Draw(t, "follow")
		}
		comesBack(t, mark, mark.Item(), schema.ParseMark)
		walked := schema.Mark{User: u, Author: v, Kind: schema.MarkPulled, From: rapid.SampledFrom([]string{"", q}).Draw(t, "from"), Pull: p, V: 1 + n&7, Version: q, TTL: ttl}
		comesBack(t, walked, walked.Item(), schema.ParseMark)
		mode := schema.Mode{Author: u, State: schema.ModeLeaving, V: n, Since: p, At: born}
		comesBack(t, mode, mode.Item(), func(it table.Item) (schema.Mode, error) { return schema.ParseMode(u, []table.Item{it}) })
		record := schema.Idempotency{User: u, Key: "k", Post: p, BodyHash: text, LikeShards: shards, TTL: born.Truncate(time.Second)}
		comesBack(t, record, record.Item(), schema.ParseIdempotency)
		plan := schema.Plan{Post: p, Author: u, Planned: n, Started: born, Attempts: n, State: text, TTL: ttl}
		comesBack(t, plan, plan.Item(), schema.ParsePlan)
		chunk := schema.Chunk{Post: p, First: u, End: v, Done: born, Delivered: n, Skipped: n, TTL: ttl}
		comesBack(t, chunk, chunk.Item(), schema.ParseChunk)
		lasting := schema.Plan{Post: p, Author: u, Planned: n, Started: born, Attempts: n}
		comesBack(t, lasting, lasting.Item(), schema.ParsePlan)
		open := schema.Chunk{Post: p}
		comesBack(t, open, open.Item(), schema.ParseChunk)

		notice := schema.Notice{User: u, Kind: schema.NoticeFollow, Revision: 1 + n&7, TTL: ttl, Acts: []schema.Act{{q, p, schema.ActHolds, v}, {p, "", "", u}}}
		comesBack(t, notice, notice.Item(), schema.ParseNotice)
		notice.Kind, notice.Target, notice.Acts[0].State = schema.NoticeLike, p, "love"
		comesBack(t, notice, notice.Item(), schema.ParseNotice)
		readTo := schema.NoticeMarkItem(u, q)
		assert.Equal(t, q, schema.NoticeMark(&readTo))

		flush := schema.Flush{Inc: "20251120abcd", Seq: rapid.Int64Range(1, 1<<62).Draw(t, "seq")}
		reaction := rapid.SampledFrom([]string{"", schema.KindLike, "love"})
		like := schema.Like{Post: p, User: u, Kind: reaction.Draw(t, "reaction"), Version: q, Flush: flush, Base: reaction.Draw(t, "base"), TTL: ttl, LikeShards: shards, Indexed: true}
		stored := like
		stored.LikeShards, stored.Indexed = 0, like.Kind != "" // the key has the shards, and only reactions are indexed
		comesBack(t, stored, like.Item(), schema.ParseLike)
	})
}

func TestLikeCountsAndUsersAreReadFromTheirItems(t *testing.T) {
	it := table.Item{Key: schema.LikeCountKey("P"), Attrs: []table.Attr{
		attr(schema.AttrLikes, table.N(7)), attr(schema.AttrCount("dx"), table.N(2)), attr(schema.AttrAsOf, table.N(1500)),
		attr(schema.AttrFlushed("inc"), table.N(3)), attr(schema.AttrFenced("gone"), table.N(1)),
	}}
	want := schema.LikeCount{Kinds: map[string]int64{"like": 7, "dx": 2}, AsOf: time.UnixMilli(1500).UTC(), Done: map[string]int64{"inc": 3}, Fenced: map[string]bool{"gone": true}}
	assert.Empty(t, cmp.Diff(want, schema.ParseLikeCount(&it)), "like count differs (-want +got)")
	assert.Empty(t, cmp.Diff(schema.LikeCount{}, schema.ParseLikeCount(nil)), "absent like count differs (-want +got)")

	end := schema.LikeEnd{Inc: "inc", Lost: map[string]bool{"P": true, "Q": true}}
	if got, err := schema.ParseLikeEnd(end.Item()); err != nil || !cmp.Equal(got, end) {
		t.Errorf("ParseLikeEnd = %+v, %v", got, err)
	}

	share := func(follower string, n int64) table.Item {
		return table.Item{Key: schema.FollowerCountKey("u", follower), Attrs: []table.Attr{attr(schema.AttrN, table.N(n))}}
	}
	profile := schema.Profile{User: "u", Name: "U", CreatedAt: time.UnixMilli(1).UTC()}
	counts := table.Item{Key: schema.CountsKey("u"), Attrs: []table.Attr{attr(schema.AttrPosts, table.N(2)), attr(schema.AttrFollowing, table.N(3)), attr(schema.AttrLastDel, table.S("p")), attr(schema.AttrUptoDay, table.N(5))}}
	got, sum, err := schema.ParseUser([]table.Item{counts, share("a", 4), share("b", 5), profile.Item()})
	if err != nil || got == nil || *got != profile || sum != (schema.Counts{Followers: 9, Following: 3, Posts: 2, LastDeleted: "p", Upto: 5}) {
		t.Errorf("ParseUser = %+v, %+v, %v", got, sum, err)
	}
}

func TestADayBeginsAtMidnightUTC(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.FixedZone("", 3600))
	assert.Equal(t, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), schema.DayOf(noon).Start())
	assert.Equal(t, schema.DayOf(noon)+1, schema.DayOf(noon.Add(13*time.Hour)))
	undated, dated := schema.FollowerItem("a", "f", noon), schema.DatedFollowerItem("a", "f", noon, 7)
	assert.True(t, schema.Pushed(&undated, 1<<30))
	assert.True(t, schema.Pushed(&dated, 7))
	assert.False(t, schema.Pushed(&dated, 8))
	assert.Less(t, schema.SortPresence, schema.UserSK("-"), "the Query of the marks reads it first")
}

// A parser must refuse an item that does not fit its key, and must never misread such an item.
func FuzzParsersNeverPanic(f *testing.F) {
	f.Add("u#a#post", "p#01K9Z0000000000000000000", schema.AttrFlush, "inc#1", int64(1))
	f.Add("p#P#likelist#03", "u#a", schema.AttrFlush, "inc#", int64(-1))
	f.Add("u#a", "count#mode", "mode", "later", int64(3))
	f.Add("p#", "chunk#", schema.AttrKind, "pulled", int64(0))
	f.Add("u#a#home", schema.SortPresence, schema.AttrPresence, "gone", int64(0))
	f.Add("u#a#notif", "n#like#P", schema.AttrActs, "v:p:like:a v:::b", int64(3))
	f.Add("u#a#post", "p#01K9Z0000000000000000000", schema.AttrImages, `[{"url":"x","width":1e300}`, int64(1))
	f.Add("u#a#post", "p#01K9Z0000000000000000000", schema.AttrImages, `[null,{"width":"1"}]`, int64(1))
	f.Add("idem#u#", "k", "post", "", int64(1)<<62)
	f.Fuzz(func(t *testing.T, pk, sk, name, text string, n int64) {
		it := table.Item{Key: table.Key{PK: pk, SK: sk}, Attrs: []table.Attr{attr(name, table.S(text)), attr(table.AttrTTL, table.N(n))}}
		for _, parse := range []func() error{
			func() error { _, err := schema.ParseProfile(it); return err },
			func() error { _, _, err := schema.ParseUser([]table.Item{it}); return err },
			func() error { _, err := schema.ParseEdge(it); return err },
			func() error { _, err := schema.ParsePost(it); return err },
			func() error { _, err := schema.ParsePostRef(it); return err },
			func() error { _, err := schema.ParseComment(it); return err },
			func() error { _, err := schema.ParseLike(it); return err },
			func() error { schema.ParseLikeCount(&it); return nil },
			func() error { _, err := schema.ParseLikeEnd(it); return err },
			func() error { _, err := schema.ParseEntry(it); return err },
			func() error { _, err := schema.ParseMark(it); return err },
			func() error { _, err := schema.ParsePresence(it); return err },
			func() error { _, err := schema.ParseMode("a", []table.Item{it}); return err },
			func() error { _, err := schema.ParseIdempotency(it); return err },
			func() error { _, err := schema.ParsePlan(it); return err },
			func() error { _, err := schema.ParseChunk(it); return err },
			func() error { _, err := schema.ParseNotice(it); return err },
		} {
			err := parse()
			if refused, ok := errors.AsType[*schema.ParseError](err); err != nil && (!ok || refused.Key != it.Key) {
				t.Errorf("error = %v, want a ParseError that names the item", err)
			}
		}
	})
}
