package schema_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

var (
	userGen = rapid.StringMatching(`[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0,63}`)
	ulidGen = rapid.StringMatching(`[0-7][0-9A-HJKMNP-TV-Z]{25}`)
)

// pair draws two users. Often the id of one user is a prefix of the other user's id.
func pair(t *rapid.T) []string {
	users := rapid.SliceOfNDistinct(userGen, 2, 2, rapid.ID).Draw(t, "users")
	if longer := users[0] + users[1]; len(longer) <= 64 && rapid.Bool().Draw(t, "prefix") {
		users[1] = longer
	}
	return users
}

func TestKeysComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		user, post := userGen.Draw(t, "user"), ulidGen.Draw(t, "post")
		if got, ok := schema.UserOfSK(schema.UserSK(user)); !ok || got != user {
			t.Errorf("UserOfSK = %q, %v", got, ok)
		}
		if got, ok := schema.PostOfSK(schema.PostSK(post)); !ok || got != post {
			t.Errorf("PostOfSK = %q, %v", got, ok)
		}
		if got, ok := schema.CommentOfSK(schema.CommentSK(post)); !ok || got != post {
			t.Errorf("CommentOfSK = %q, %v", got, ok)
		}
		if got, ok := schema.MutedOfSK(schema.MuteSK(user)); !ok || got != user {
			t.Errorf("MutedOfSK = %q, %v", got, ok)
		}
		if p, a, ok := schema.ParseEntrySK(schema.EntrySK(post, user)); !ok || p != post || a != user {
			t.Errorf("ParseEntrySK = %q, %q, %v", p, a, ok)
		}
		assert.Equal(t, "x"+schema.TimelinePK(user), string(schema.AppendTimelinePK([]byte("x"), user)))
	})
}

// Two items must not share a key, because one would overwrite the other.
func TestKeysAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		users := pair(t)
		posts := rapid.SliceOfNDistinct(ulidGen, 2, 2, rapid.ID).Draw(t, "posts")
		shards := rapid.IntRange(1, 99).Draw(t, "shards")
		seen := map[table.Key]string{}
		add := func(what string, k table.Key) {
			other, twice := seen[k]
			require.Falsef(t, twice, "%s and %s are both %v", what, other, k)
			seen[k] = what
			require.NoError(t, k.Validate(), what)
		}
		for i, u := range users {
			other := users[1-i]
			add("profile of "+u, schema.ProfileKey(u))
			add("note of a removal of "+u, schema.ForgottenKey(u))
			add("counts of "+u, schema.CountsKey(u))
			add("follower count of "+u, schema.FollowerCountKey(u, other))
			add("follower of "+u, schema.FollowerKey(u, other))
			add("following of "+u, schema.FollowingKey(u, other))
			add("mode of "+u, schema.ModeKey(u))
			add("mark of "+u, schema.MarkKey(u, other))
			add("presence of "+u, schema.PresenceKey(u))
			add("block of "+u, schema.BlockKey(u, other))
			add("note of blocks of "+u, schema.HasBlocksKey(u))
			add("mute of "+u, schema.MuteKey(u, other))
			add("muter of "+u, schema.MuterKey(u, other))
			add("marker of "+u, schema.MarkerKey(u, other))
			add("notification of a follow of "+u, schema.NoticeKey(u, schema.NoticeFollow, ""))
			add("mark of "+u+"'s notifications", schema.NoticeMarkKey(u))
			add("idempotency of "+u, schema.IdempotencyKey(u, "!~"))
			for _, p := range posts {
				add(u+"'s post "+p, schema.PostKey(u, p))
				add(u+"'s like of "+p, schema.LikeKey(p, u, shards))
				add(u+"'s repost of "+p, schema.RepostKey(u, p))
				add(u+"'s bookmark "+p, schema.BookmarkKey(u, p))
				add(u+"'s bookmark of "+p, schema.BookmarkOfKey(u, p))
				add("entry of "+p+" in "+u, table.Key{PK: schema.TimelinePK(u), SK: schema.EntrySK(p, u)})
				add("notification of likes of "+p+" for "+u, schema.NoticeKey(u, schema.NoticeLike, p))
				add("chunk of "+p+" from "+u, schema.DeliveryChunkKey(p, u))
			}
		}
		for _, p := range posts {
			add("post by id "+p, schema.PostByIDKey(p))
			add("comment of "+p, schema.CommentKey(p, posts[0]))
			add("like count of "+p, schema.LikeCountKey(p))
			add("end of "+p, schema.LikeEndKey(p))
			add("plan of "+p, schema.DeliveryPlanKey(p))
			add("first chunk of "+p, schema.DeliveryChunkKey(p, ""))
		}
	})
}

func TestRangesHoldWhatTheySay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := ulidGen.Draw(t, "a"), ulidGen.Draw(t, "b")
		users := pair(t)
		u, v := users[0], users[1]
		// Entries are in the order of their posts, whoever wrote the posts.
		if c := cmp.Compare(a, b); c != 0 && cmp.Compare(schema.EntrySK(a, u), schema.EntrySK(b, v)) != c {
			t.Errorf("entries of %s and %s are in another order", a, b)
		}
		if (schema.UserSK(u) <= schema.BelowUser(v)) != (u < v) {
			t.Errorf("BelowUser(%s) = %q is on the wrong side of %s", v, schema.BelowUser(v), u)
		}
		if schema.ChunkSK(u) >= schema.SortChunkEnd || schema.FollowerCountKey(u, v).SK >= schema.SortCountEnd {
			t.Error("a range's end is below what it should hold")
		}
		bookmark := schema.BookmarkSK(a)
		assert.True(t, schema.SortBookmark < bookmark && bookmark < schema.SortBookmarkEnd && schema.SortBookmarkEnd < schema.PostSK(b))
		// Readers of the marks read the mutes first.
		mute := schema.MuteSK(u)
		assert.True(t, schema.SortMute < mute && mute < schema.SortMuteEnd && schema.SortMuteEnd < schema.SortPresence)
		assert.Equal(t, cmp.Compare(u, v), cmp.Compare(mute, schema.MuteSK(v)))
		assert.False(t, schema.KnownMark(table.Item{Key: schema.MuteKey(u, v)}), "readers of marks pass it by")
	})
}

func TestShardsArePartOfTheStoredFormat(t *testing.T) {
	for user, want := range map[string][2]int{"alice": {7, 7}, "bob": {4, 20}, "Z": {5, 13}, "_": {6, 14}} {
		assert.Equalf(t, want[0], schema.LikeShard(user, 8), "LikeShard(%q", user)
		assert.Equalf(t, want[1], schema.LikeShard(user, 32), "LikeShard(%q", user)
	}
	assert.Zero(t, schema.LikeShard("alice", 0), "LikeShard without shards")
	assert.Equal(t, table.Key{PK: "p#P#likelist", SK: "u#alice"}, schema.LikeKey("P", "alice", 1), "LikeKey with one shard")
	assert.Equal(t, "p#P#likelist#07", schema.LikeKey("P", "alice", 8).PK, "LikeKey with eight shards")
}

func FuzzParseEntrySK(f *testing.F) {
	f.Add("p#01K9Z0000000000000000000#u#alice")
	f.Add("p##u#")
	f.Fuzz(func(t *testing.T, sk string) {
		post, author, ok := schema.ParseEntrySK(sk)
		if ok && schema.EntrySK(post, author) != sk {
			t.Errorf("%q was read as %q, %q", sk, post, author)
		}
		if ok && strings.Contains(post, "#u#") {
			t.Errorf("post %q holds a separator", post)
		}
	})
}

func TestAPartitionNamesItsCollection(t *testing.T) {
	for pk, want := range map[string]string{
		schema.UserPK("ann"): "user", schema.FollowersPK("ann"): "follower", schema.TimelinePK("ann"): "timeline", schema.UserLikesPK("ann"): "like",
		schema.PostByIDKey("1").PK: "post", schema.LikesPK("1", 2, 3): "likelist", schema.LikeCountKey("1").PK: "likecount", schema.DeliveryPK("1"): "delivery",
		schema.PostsMadePK("07", 3): "made", schema.LikeEndKey("inc").PK: "inc", schema.ChangesPK("07"): "changed", "": "",
	} {
		assert.Equal(t, want, schema.Collection(pk), pk)
	}
}
