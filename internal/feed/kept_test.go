package feed_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// leave removes a user, including the work of the workers.
func (w *world) leave(user string) {
	w.t.Helper()
	w.clock.add(time.Second)
	event, err := w.AskToForget(w.t.Context(), user)
	require.NoError(w.t, err)
	w.published.take()
	w.clock.add(2 * time.Hour)
	w.forget(user, event, 500)
}

// listed returns the users of a list of mutes or blocks.
func listed(t *testing.T, read func(context.Context, string, page.Request) (page.List[feed.Edge], error), user string) []string {
	t.Helper()
	list, err := read(t.Context(), user, page.Request{})
	require.NoError(t, err)
	users := []string{}
	for _, e := range list.Items {
		users = append(users, e.UserID)
	}
	return users
}

// A block and a mute belong to the user who made them. A blocked user cannot end the block or the mute
// by a removal and a return.
func TestABlockOutlastsRemovalsAndReturnsOfTheBlockedUser(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "rex", "cid", "dan")
	posts := map[string]feed.Post{"ann": w.post("ann", "hers")}
	w.block("ann", "rex")
	w.block("rex", "ann") // both directions
	w.block("rex", "dan") // this block ends with rex's removal
	w.mute("cid", "rex")
	w.mute("rex", "cid") // this mute ends with rex's removal
	for life := range 3 {
		made := w.item(schema.BlockKey("ann", "rex")).Get(schema.AttrSince)
		w.leave("rex")
		for _, key := range []table.Key{schema.BlockKey("ann", "rex"), schema.BlockKey("rex", "ann"), schema.MuteKey("cid", "rex"), schema.MuterKey("rex", "cid")} {
			it := w.item(key)
			require.NotNilf(t, it, "life %d: %v is gone", life, key)
			assert.False(t, it.Has(table.AttrTTL), "a ttl would expire while the user is back")
		}
		for _, key := range []table.Key{schema.BlockKey("rex", "dan"), schema.BlockKey("dan", "rex"), schema.MuteKey("rex", "cid"), schema.MuterKey("cid", "rex")} {
			assert.Nil(t, w.item(key), key)
		}
		assert.Equal(t, made, w.item(schema.BlockKey("ann", "rex")).Get(schema.AttrSince))
		assert.Equal(t, []string{"rex"}, listed(t, w.Blocks, "ann"))
		assert.Equal(t, []string{"rex"}, listed(t, w.Mutes, "cid"))
		require.NoError(t, w.Block(t.Context(), "ann", "rex"), "it may be repeated")
		require.NoError(t, w.Mute(t.Context(), "cid", "rex"), "it may be repeated")
		wantKind(t, w.Block(t.Context(), "dan", "rex"), fault.NotFound)

		w.clock.add(time.Minute)
		w.users("rex")
		posts["rex"] = w.post("rex", "I am back")
		w.deliver()
		w.clock.add(time.Minute)
		w.refused(posts, "ann", "rex", true)
		w.refused(posts, "rex", "ann", true)
		assert.Empty(t, listed(t, w.Blocks, "rex"), "the user's own blocks are gone")
		w.follow("cid", "rex")
		w.homes("cid")
		require.NoError(t, w.Unfollow(t.Context(), "cid", "rex"))
		w.follow("rex", "dan")
		require.NoError(t, w.Unfollow(t.Context(), "rex", "dan"))
	}
	w.unblock("ann", "rex")
	w.unmute("cid", "rex")
	w.clock.add(time.Minute)
	w.refused(posts, "rex", "ann", false)
	assert.Nil(t, w.item(schema.BlockKey("rex", "ann")))
	assert.Nil(t, w.item(schema.MuterKey("rex", "cid")))
}

// A call can also end a block and a mute of a removed user.
func TestWhoMadeAKeptBlockEndsIt(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "rex")
	w.block("ann", "rex")
	w.mute("ann", "rex")
	w.leave("rex")
	w.unblock("ann", "rex")
	w.unmute("ann", "rex")
	assert.Empty(t, w.partition(schema.BlocksPK("rex")))
	assert.Empty(t, w.partition(schema.MutersPK("rex")))
	wantKind(t, w.Unblock(t.Context(), "ann", "rex"), fault.NotFound)
	wantKind(t, w.Unmute(t.Context(), "ann", "rex"), fault.NotFound)
}

// Kept mutes count towards the bound, because homes read them like all other mutes.
func TestKeptMutesCountTowardsTheBound(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "rex", "one")
	w.mute("ann", "rex")
	w.leave("rex")
	for n := range feed.MaxMutes - 1 {
		mute, muter := schema.Mute{User: "ann", Author: fmt.Sprint("far", n), Since: w.clock.now()}.Items()
		w.put(mute, muter)
	}
	wantKind(t, w.Mute(t.Context(), "ann", "one"), fault.Limit)
}

// The audit requests the end of a kept block. The block ends when the user has neither a profile nor a
// note. The block of the other direction stays.
func TestAKeptBlockEndsWithTheNoteOfTheRemoval(t *testing.T) {
	set := func(w *world) {
		w.users("ann", "rex", "dan")
		w.block("ann", "rex")
		w.mute("ann", "rex")
		w.leave("rex")
	}
	end := func(w *world) (ended [2]bool, err error) {
		if ended[0], err = w.EndKeptBlock(w.t.Context(), "ann", "rex"); err != nil {
			return ended, err
		}
		ended[1], err = w.EndKeptMute(w.t.Context(), "ann", "rex")
		return ended, err
	}
	w := newWorld(t)
	set(w)
	kept := func(when string) {
		t.Helper()
		ended, err := end(w)
		require.NoError(t, err)
		assert.Equal(t, [2]bool{}, ended, when)
		assert.NotNil(t, w.item(schema.BlockKey("ann", "rex")), when)
		assert.NotNil(t, w.item(schema.MuteKey("ann", "rex")), when)
	}
	kept("a year is not over")
	w.users("rex")
	kept("the user is back")
	w.leave("rex")
	w.clock.add(366 * 24 * time.Hour)
	kept("the note is expired and still in the table")
	note := schema.ForgottenKey("rex")
	_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: note})
	require.NoError(t, err)
	ended, err := end(w)
	require.NoError(t, err)
	assert.Equal(t, [2]bool{true, true}, ended)
	for _, pk := range []string{schema.BlocksPK("ann"), schema.BlocksPK("rex"), schema.MutersPK("rex"), schema.MarksPK("ann")} {
		assert.Empty(t, w.partition(pk), pk)
	}
	ended, err = end(w)
	require.NoError(t, err)
	assert.Equal(t, [2]bool{}, ended, "nothing is left to end")

	eachCallFails(t, func(w *world) {
		set(w)
		_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: note})
		require.NoError(t, err)
	}, func(w *world) error { _, err := end(w); return err }, func(w *world) {
		assert.Empty(t, w.partition(schema.BlocksPK("rex")))
		assert.Empty(t, w.partition(schema.MutersPK("rex")))
	})
}

// Between the read and the transaction that ends a kept block, the blocked user returns or is removed
// again, or the blocker changes the block.
func TestTheEndOfAKeptBlockYieldsToOtherCalls(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world){
		"the user comes back": func(w *world) { w.users("rex") },
		"a note of a removal": func(w *world) { w.put(schema.Removal{User: "rex", Event: w.ids(1)[0], At: w.clock.now()}.Item()) },
		"another block": func(w *world) {
			since := w.clock.now()
			w.put(schema.Block{User: "ann", Other: "rex", Since: since}.Item(), schema.Block{User: "rex", Other: "ann", By: since}.Item())
			mute, muter := schema.Mute{User: "ann", Author: "rex", Since: w.clock.now()}.Items()
			w.put(mute, muter)
		},
	} {
		for kind, end := range map[string]func(w *world) (bool, error){
			"block": func(w *world) (bool, error) { return w.EndKeptBlock(t.Context(), "ann", "rex") },
			"mute":  func(w *world) (bool, error) { return w.EndKeptMute(t.Context(), "ann", "rex") },
		} {
			w, store := onTransact(t)
			w.users("ann", "rex")
			w.block("ann", "rex")
			w.mute("ann", "rex")
			w.clock.add(time.Hour)
			_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: schema.ProfileKey("rex")})
			require.NoError(t, err)
			store.do = func() { meanwhile(w) }
			ended, err := end(w)
			require.NoError(t, err)
			assert.False(t, ended, "%s, %s", kind, name)
			assert.NotNil(t, w.item(schema.BlockKey("ann", "rex")), name)
			assert.NotNil(t, w.item(schema.MuteKey("ann", "rex")), name)
		}
	}
}

// The end of one direction leaves the block of the other direction.
func TestTheEndOfAKeptBlockLeavesTheOtherDirection(t *testing.T) {
	w := newWorld(t)
	w.users("ann", "bob")
	w.putSides(sides{ann: longAgo, bob: longAgo, by: longAgo, byAnn: longAgo})
	_, err := w.store.Delete(t.Context(), table.DeleteInput{Key: schema.ProfileKey("bob")})
	require.NoError(t, err)
	ended, err := w.EndKeptBlock(t.Context(), "ann", "bob")
	require.NoError(t, err)
	assert.True(t, ended)
	assert.Equal(t, sides{bob: longAgo, by: longAgo}, w.sides())
}

// An import may contain blocks and mutes of users without a profile. A note keeps these blocks and
// mutes, as after a removal.
func TestAnImportKeepsBlocksOfUsersWithoutAProfile(t *testing.T) {
	since := longAgo
	set := func(w *world) { w.users("ann", "bob", "dan") }
	do := func(w *world) error {
		for _, user := range []string{"ann", "bob"} {
			if err := w.ImportBlock(w.t.Context(), user, "rex", since); err != nil {
				return err
			}
			if err := w.ImportMute(w.t.Context(), user, "rex", since); err != nil {
				return err
			}
		}
		return w.ImportMute(w.t.Context(), "ann", "max", since)
	}
	check := func(w *world) {
		for _, user := range []string{"ann", "bob"} {
			assert.Equal(t, []string{"rex"}, listed(t, w.Blocks, user))
			ended, err := w.EndKeptBlock(t.Context(), user, "rex")
			require.NoError(t, err)
			assert.False(t, ended)
			ended, err = w.EndKeptMute(t.Context(), user, "rex")
			require.NoError(t, err)
			assert.False(t, ended)
		}
		assert.Equal(t, []string{"max", "rex"}, listed(t, w.Mutes, "ann"))
		assert.NotNil(t, w.item(schema.HasBlocksKey("rex")), "likes ask for it")
		for _, user := range []string{"rex", "max"} {
			note := w.item(schema.ForgottenKey(user))
			assert.True(t, note.Has(table.AttrTTL))
			assert.Less(t, note.Int(schema.AttrAsOf), w.clock.now().Add(-2*time.Hour).UnixMilli(), "no work of the removal is under way here")
		}
		posts := map[string]feed.Post{"ann": w.post("ann", "hers")}
		w.users("rex")
		posts["rex"] = w.post("rex", "back")
		w.deliver()
		w.clock.add(time.Minute)
		w.refused(posts, "rex", "ann", true)
		w.refused(posts, "ann", "rex", true)
	}
	w := newWorld(t)
	set(w)
	require.NoError(t, do(w))
	check(w)
	eachCallFails(t, set, do, check)
	for _, do := range []func() error{
		func() error { return w.ImportBlock(t.Context(), "nobody", "ann", since) },
		func() error { return w.ImportMute(t.Context(), "nobody", "ann", since) },
	} {
		wantKind(t, do(), fault.ProfileMissing)
	}
	wantKind(t, w.ImportBlock(t.Context(), "ann", "ann", since), fault.Invalid)
	wantKind(t, w.ImportMute(t.Context(), "ann", "ann", since), fault.Invalid)
	require.NoError(t, w.ImportBlock(t.Context(), "dan", "ann", since))
	assert.Nil(t, w.item(schema.ForgottenKey("ann")), "a user who is here has no note")
}

// Before the import writes, another worker of an import, or a call of the user, writes.
func TestAnImportOfAKeptBlockYieldsToOtherCalls(t *testing.T) {
	for kind, do := range map[string]func(w *world) error{
		"block": func(w *world) error { return w.ImportBlock(t.Context(), "ann", "rex", longAgo) },
		"mute":  func(w *world) error { return w.ImportMute(t.Context(), "ann", "rex", longAgo) },
	} {
		for name, meanwhile := range map[string]func(w *world){
			"the user comes":        func(w *world) { w.users("rex") },
			"another import's note": func(w *world) { w.put(schema.Removal{User: "rex", Event: w.ids(1)[0], At: w.clock.now()}.Item()) },
		} {
			w, store := onTransact(t)
			w.users("ann")
			store.do = func() { meanwhile(w) }
			require.NoErrorf(t, do(w), "%s, %s", kind, name)
			there := len(w.partition(schema.BlocksPK("ann"))) + len(w.partition(schema.MutersPK("rex")))
			assert.Equal(t, 1, there, "%s, %s", kind, name)
			if name == "the user comes" {
				assert.Nil(t, w.item(schema.ForgottenKey("rex")))
			}
		}
	}
}

// A repair ends the blocks by a removed user, and repairs other users' blocks of that user.
func TestARepairKeepsTheBlocksOfARemovedUser(t *testing.T) {
	for left, want := range map[sides]sides{
		{ann: longAgo}:                       {},                          // a block by the removed user
		{byAnn: longAgo}:                     {},                          // the other side of that block
		{bob: longAgo}:                       {bob: longAgo, by: longAgo}, // a block of the removed user
		{by: longAgo}:                        {bob: longAgo, by: longAgo}, // the other side of that block
		{ann: longAgo, by: longAgo}:          {bob: longAgo, by: longAgo},
		{longAgo, longAgo, longAgo, longAgo}: {bob: longAgo, by: longAgo}, // the removal has not ended its blocks yet
	} {
		for _, users := range [][2]string{{"ann", "bob"}, {"bob", "ann"}} {
			w := newWorld(t)
			w.users("ann", "bob")
			w.leave("ann")
			w.putSides(left)
			_, err := w.MendBlock(t.Context(), users[0], users[1])
			require.NoError(t, err)
			assert.Equalf(t, want, w.sides(), "%+v", left)
		}
	}
}
