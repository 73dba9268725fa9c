package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/internal/feed/access"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/removal"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

var today = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const timelineTTL = 30 * 24 * time.Hour

func config(store table.Store) transfer.Config {
	return transfer.Config{
		Store: store, Now: func() time.Time { return today }, TTL: timelineTTL, LikeWindow: 10 * time.Millisecond,
		LikesByUser: true, ActiveDays: 14, MaxFollowing: 3, AtOnce: 8,
	}
}

// file writes records as lines to a new file, and returns its name.
func file(t *testing.T, lines ...any) string {
	t.Helper()
	var text strings.Builder
	for _, line := range lines {
		if s, ok := line.(string); ok {
			fmt.Fprintln(&text, s)
			continue
		}
		require.NoError(t, json.NewEncoder(&text).Encode(line))
	}
	name := filepath.Join(t.TempDir(), "network.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(text.String()), 0o600))
	return name
}

type rec map[string]any

func ago(d time.Duration) string { return today.Add(-d).Format(time.RFC3339Nano) }

const day = 24 * time.Hour

func network() []any {
	return []any{
		rec{"type": "like", "post_id": "p-old", "user_id": "bob", "time": ago(700 * day)},
		rec{"type": "like", "post_id": "p-new", "user_id": "cid", "time": ago(day)},
		rec{"type": "like", "post_id": "p-old", "user_id": "cid", "time": ago(2 * day)},
		rec{"type": "comment", "id": "c1", "post_id": "p-old", "author_id": "cid", "text": "first!", "data": rec{"at": 12}, "mentions": []string{"ann"}, "time": ago(699 * day)},
		rec{"type": "post", "id": "p-old", "author_id": "ann", "text": "two years ago", "time": ago(701 * day), "edited_at": ago(600 * day)},
		rec{"type": "post", "id": "p-new", "author_id": "ann", "text": "this week", "images": []any{rec{"url": "https://example.com/a.png", "alt": "A"}}, "kind": "album", "data": rec{"a": "\u202eé", "b": []any{1.5}}, "mentions": []string{"bob", "cid"}, "time": ago(3 * day)},
		rec{"type": "post", "id": "b-new", "author_id": "bob", "text": "bob's", "time": ago(4 * day)},
		rec{"type": "bookmark", "post_id": "p-old", "user_id": "cid", "time": ago(20 * day)},
		rec{"type": "marker", "user_id": "cid", "name": "home", "position": "page:12", "time": ago(5 * day)},
		rec{"type": "bookmark", "post_id": "b-new", "user_id": "cid", "time": ago(30 * day)},
		"",
		rec{"type": "follow", "follower_id": "bob", "author_id": "ann", "time": ago(705 * day)},
		rec{"type": "follow", "follower_id": "cid", "author_id": "ann", "time": ago(704 * day)},
		rec{"type": "follow", "follower_id": "cid", "author_id": "bob", "time": ago(10 * day)},
		rec{"type": "user", "id": "ann", "name": "Ann", "bio": "hello", "data": rec{"x": nil}, "time": ago(710 * day)},
		rec{"type": "user", "id": "bob", "name": "Bob", "time": ago(709 * day)},
		rec{"type": "user", "id": "cid", "name": "Cid", "time": ago(708 * day)},
	}
}

// domain is the feed and its homes.
type domain struct {
	*feed.Service
	*home.Homes
	*removal.Removals
}

func service(store table.Store, now time.Time) domain {
	clock := func() time.Time { return now }
	way := access.New(access.Config{Store: store, Publisher: sink{}, IDs: id.NewGenerator(clock), Now: clock, Lifetimes: lifetime.Fixed(timelineTTL)})
	s := feed.New(feed.Config{Access: way, LikesByUser: true})
	return domain{s, home.New(home.Config{Access: way, Items: s, Mutes: s}), removal.New(way, s)}
}

// sink drops events, because the tests need no handler.
type sink struct{}

func (sink) Publish(string, ...*message.Message) error { return nil }

func (sink) Close() error { return nil }

// texts returns the texts of the home by push and of the home by pull, the newest text first.
func texts(t *testing.T, s domain, user string) (push, pull []string) {
	t.Helper()
	for _, byPull := range []bool{false, true} {
		list, err := s.Home(t.Context(), user, home.Query{Pull: byPull}, page.Request{Limit: 100})
		require.NoError(t, err)
		var found []string
		for _, item := range list.Items {
			found = append(found, item.Post.Text)
		}
		if byPull {
			pull = found
		} else {
			push = found
		}
	}
	return push, pull
}

func TestAnImportedNetworkReadsAsIfItHadBeenMadeHere(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	done, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	assert.Equal(t, 3, done.Entries, "this week to bob and cid, bob's to cid")

	s := service(store, today.Add(time.Hour))
	ann, err := s.User(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, feed.Counts{Followers: 2, Posts: 2}, ann.Counts)
	assert.Equal(t, today.Add(-710*day), ann.CreatedAt)
	push, pull := texts(t, s, "cid")
	assert.Equal(t, []string{"this week", "bob's"}, push)
	assert.Equal(t, push, pull)
	push, pull = texts(t, s, "ann")
	assert.Equal(t, []string{"this week"}, push)
	assert.Equal(t, push, pull)

	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	require.Len(t, posts.Items, 2)
	assert.Equal(t, `{"x":null}`, ann.Data)
	album, old := posts.Items[0], posts.Items[1]
	assert.Equal(t, "album", album.Kind)
	assert.Equal(t, "{\"a\":\"\u202eé\",\"b\":[1.5]}", string(album.Data)) //nolint:testifylint // each byte counts
	assert.Equal(t, []string{"bob", "cid"}, album.Mentions)
	assert.Equal(t, today.Add(-701*day), old.CreatedAt)
	assert.Equal(t, today.Add(-600*day), old.EditedAt)
	count, err := s.LikeCount(t.Context(), access.Viewer{}, old.ID)
	require.NoError(t, err)
	assert.EqualValues(t, 2, count.Count, "a like of two years ago counts as any other")
	likers, err := s.Likers(t.Context(), access.Viewer{}, old.ID, page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Liker{{UserID: "bob", LikedAt: today.Add(-700 * day), Kind: "like"}, {UserID: "cid", LikedAt: today.Add(-2 * day), Kind: "like"}}, likers.Items)
	comments, err := s.Comments(t.Context(), access.Viewer{}, old.ID, page.Request{})
	require.NoError(t, err)
	require.Len(t, comments.Items, 1)
	assert.Equal(t, today.Add(-699*day), comments.Items[0].CreatedAt)
	assert.Equal(t, `{"at":12}`, comments.Items[0].Data)
	assert.Equal(t, []string{"ann"}, comments.Items[0].Mentions)
	marker, err := s.MarkerOf(t.Context(), "cid", "home")
	require.NoError(t, err)
	assert.Equal(t, feed.Marker{Name: "home", Position: "page:12", UpdatedAt: today.Add(-5 * day)}, marker)
	bookmarks, err := s.Bookmarks(t.Context(), "cid", page.Request{})
	require.NoError(t, err)
	require.Len(t, bookmarks.Items, 2)
	assert.Equal(t, []any{old.ID, today.Add(-20 * day)}, []any{bookmarks.Items[0].PostID, bookmarks.Items[0].BookmarkedAt})
	edges, err := s.Followers(t.Context(), "ann", page.Request{})
	require.NoError(t, err)
	assert.Equal(t, []feed.Edge{{UserID: "bob", Since: today.Add(-705 * day)}, {UserID: "cid", Since: today.Add(-704 * day)}}, edges.Items)
}

// TestEveryPhaseEndsAtItsTotal runs an import, which checks its writes, and an export.
func TestEveryPhaseEndsAtItsTotal(t *testing.T) {
	t.Parallel()
	ended, underWay := map[string]transfer.Progress{}, map[string]bool{}
	store := tabletest.NewMemory()
	cfg := config(store)
	cfg.Progress = func(p transfer.Progress) {
		ended[p.Phase] = p
		underWay[p.Phase] = underWay[p.Phase] || p.Done > 0 && !p.Ended
	}
	_, err := transfer.Import(t.Context(), cfg, []string{file(t, network()...)})
	require.NoError(t, err)
	require.NoError(t, transfer.Export(t.Context(), cfg, io.Discard))
	for phase, total := range map[string]int{"users": 3, "follows": 3, "posts": 3, "comments": 1, "likes": 3, "bookmarks": 2, "markers": 1, "verify": 16} {
		require.Equal(t, total, ended[phase].Total, phase)
		require.True(t, underWay[phase], phase)
	}
	for name, p := range ended {
		assert.True(t, p.Ended, "%s has not ended", name)
		if p.Total > 0 {
			assert.Equal(t, p.Total, p.Done, name)
		}
	}
}

func TestARepeatedImportChangesNothing(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	name := file(t, network()...)
	_, err := transfer.Import(t.Context(), config(store), []string{name})
	require.NoError(t, err)
	again, err := transfer.Import(t.Context(), config(store), []string{name})
	require.NoError(t, err)
	assert.Less(t, again.WCU, 10.0, "attempts of three deliveries, and the end of an aggregator")
	s := service(store, today.Add(time.Hour))
	posts, err := s.PostsByUser(t.Context(), access.Viewer{}, "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)
	count, err := s.LikeCount(t.Context(), access.Viewer{}, posts.Items[1].ID)
	require.NoError(t, err)
	assert.EqualValues(t, 2, count.Count)
}

// dying is a table whose process dies at one of its writes, before or after this write took effect.
type dying struct {
	table.Store
	mu    sync.Mutex
	left  int
	after bool
	kill  func()
}

var errDead = errors.New("killed")

func (d *dying) write(do func() (table.WriteResult, error)) (table.WriteResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left--
	if d.left > 0 {
		return do()
	}
	if d.left == 0 && d.after {
		if res, err := do(); err != nil {
			return res, err
		}
	}
	d.kill()
	return table.WriteResult{}, errDead
}

func (d *dying) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return d.write(func() (table.WriteResult, error) { return d.Store.Put(ctx, in) })
}

func (d *dying) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return d.write(func() (table.WriteResult, error) { return d.Store.Update(ctx, in) })
}

func (d *dying) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	return d.write(func() (table.WriteResult, error) { return d.Store.BatchWrite(ctx, writes) })
}

func (d *dying) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	return d.write(func() (table.WriteResult, error) { return d.Store.Transact(ctx, in) })
}

func TestAnImportThatDiesAnywhereGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	name := file(t, network()...)
	synctest.Test(t, func(t *testing.T) {
		for died, n := true, 0; died; n++ {
			store := tabletest.NewMemory()
			ctx, kill := context.WithCancel(t.Context())
			process := &dying{Store: store, left: 1 + n/2, after: n%2 == 1, kill: kill}
			_, err := transfer.Import(ctx, config(process), []string{name})
			kill()
			if died = process.left <= 0; !died {
				require.NoError(t, err)
				require.Greater(t, n, 48, "25 writes were cut, each before and after its effect")
			}
			done, err := transfer.Import(t.Context(), config(store), []string{name})
			require.NoError(t, err, "after write %d", n)
			require.Equal(t, 3, done.Entries)
			for _, follow := range [][2]string{{"bob", "ann"}, {"cid", "ann"}, {"cid", "bob"}} {
				stored, err := store.Get(t.Context(), table.GetInput{Key: schema.MarkKey(follow[0], follow[1]), Consistent: true})
				require.NoError(t, err)
				require.NotNil(t, stored.Item)
				mark, err := schema.ParseMark(*stored.Item)
				require.NoError(t, err)
				require.Falsef(t, mark.Until.IsZero(), "after write %d the backfill of %v is left to others", n, follow)
			}
			push, pull := texts(t, service(store, today.Add(time.Hour)), "cid")
			require.Equal(t, push, pull)
		}
	})
}

func TestFaultsAreNamedByFileLineAndFieldBeforeAnyWrite(t *testing.T) {
	t.Parallel()
	store := &dying{Store: tabletest.NewMemory(), left: 1, kill: func() { t.Error("written") }}
	name := file(t,
		rec{"type": "user", "id": "ann", "name": "Ann", "time": ago(day)},
		rec{"type": "user", "id": "a#b", "name": strings.Repeat("x", 101), "time": ago(day)},
		rec{"type": "user", "id": "ann", "name": "Ann", "time": ago(day)},
		rec{"type": "user", "id": "bob", "name": "Bob"},
		rec{"type": "post", "id": "p", "author_id": "ann", "text": strings.Repeat("x", 5001), "images": []any{rec{"url": "ftp://x"}}, "time": ago(-day)},
		rec{"type": "post", "id": "q", "author_id": "ann", "text": "x", "time": "yesterday", "colour": "red"},
		rec{"type": "poke"},
		"[1]",
		"\ufeff{}",
		"\x1f\x8b\x08",
		rec{"type": "like", "post_id": 7, "user_id": "ann", "time": ago(day)},
		rec{"type": "follow", "follower_id": "ann", "author_id": "ann", "time": ago(day)},
		rec{"type": "like", "post_id": "p", "user_id": "ann", "kind": "Love", "time": ago(day)},
		rec{"type": "comment", "id": "c", "post_id": "p", "author_id": "ann", "text": "x", "kind": "love", "time": ago(day)},
		rec{"type": "marker", "user_id": "ann", "name": ".n", "position": "a b", "time": ago(day)},
	)
	_, err := transfer.Import(t.Context(), config(store), []string{name})
	var invalid *transfer.InvalidError
	require.ErrorAs(t, err, &invalid)
	want := []string{
		`2: id: "a#b" is not a user id: use ` + id.UserGrammar,
		`2: name: has 101 characters: it must have 1 to 100`,
		`3: id: "ann" is the id of an earlier user`,
		`4: time: is missing`,
		`5: time: 2026-11-23T12:00:00Z is in the future`,
		`5: text: has 5001 characters: it must have 0 to 5000`,
		`5: images[0].url: is not an http or https URL`,
		`6: time: is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`,
		`6: colour: is not a field of a post`,
		`7: type: is "poke": it must be user, follow, mute, block, post, repost, comment, like, bookmark or marker`,
		`8: is not a JSON object: write one record a line, as docs/IMPORT.md shows`,
		`9: begins with a byte order mark: save the file without it`,
		`10: is compressed: unpack the file first`,
		`11: post_id: must not be a JSON number`,
		`12: author_id: is the follower's own id`,
		`13: kind: "Love" is not a kind of reaction: use 1 to 12 of a-z 0-9, a letter first`,
		`14: kind: is not a field of a comment`,
		`15: name: ".n" is not a name: use ` + id.UserGrammar,
		`15: position: has another character than visible ASCII`,
	}
	for i, line := range want {
		want[i] = name + ":" + line
	}
	assert.Equal(t, want, invalid.Faults)
	assert.Equal(t, len(want), invalid.Total)
}

// An import accepts no line that the API would refuse, and no line that would not be stored as it is.
func TestLinesThatTheAPIWouldRefuseAreFaults(t *testing.T) {
	t.Parallel()
	const user = `{"type":"user","id":"ann","name":"Ann","time":"2024-01-31T12:00:00Z"`
	lines := []struct{ line, fault string }{
		{user + `,"name":"Bnn"}`, "name: occurs more than once"},
		{user + `,"n\u0061me":"Bnn"}`, "name: occurs more than once"},
		{user + `,"x":{"y":1,"y":2}}`, "x.y: occurs more than once"},
		{user + `,"bio":"A\ud800"}`, "bio: is not well-formed JSON: invalid surrogate pair `\\ud800\"}` in string"},
		{user + `,"bio":"\ude00\ud83d"}`, "bio: is not well-formed JSON: invalid surrogate pair `\\ude00\\ud83d` in string"},
		{user + ",\"bio\":\"\xff\"}", "bio: is not well-formed JSON: invalid UTF-8"},
		{user + `,"Bio":"x"}`, "Bio: is not a field of a user"},
		{user + `,"bio":null}`, "bio: is null: leave it out instead"},
		{user + `,"bio":["x"]}`, "bio: must not be a JSON array"},
		{user + `}{}`, "is not well-formed JSON: data follows its end"},
		{user, "is not well-formed JSON: it ends too early"},
		{`{"type":"user","ID":"ann","name":"Ann","time":"2024-01-31T12:00:00Z"}`, "id: is missing"},
		{`{"type":"user","id":"ann","name":"Ann","time":"2024-01-31T12:00:00,5Z"}`, `time: is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`},
		{`{"type":"user","id":"ann","name":"Ann","time":"2024-01-31T1:00:00Z"}`, `time: is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`},
		{`{"type":"user","id":"ann","name":"Ann","time":1706702400}`, `time: is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`},
		{`{"type":"user","id":"ann","name":"Ann","time":null}`, "time: is null: leave it out instead"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00.5Z","expires_at":"2024-01-31T12:00:00.9Z"}`, "expires_at: is not after time, in whole seconds"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","expires_at":"0001-01-01T00:00:00Z"}`, "expires_at: is not after time, in whole seconds"},
		{`{"type":"post","id":"p","author_id":"bob","time":"2024-01-31T12:00:00Z"}`, "text: is empty, and there is no image and no data: give at least one"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","expires_at":"tomorrow"}`, `expires_at: is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`},
		{`{"type":"comment","id":"c","post_id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","expires_at":"2024-02-01T00:00:00Z"}`, "expires_at: is not a field of a comment"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","images":[{"url":"javascript:alert(1)"}]}`, "images[0].url: is not an http or https URL"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","images":[{"url":"https://x.example/","width":0,"height":1}]}`, "images[0].width: is 0: it must be 1 to 65535"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","images":[{"url":"https://x.example/","blurhash":"x"}]}`, "images[0].blurhash: is unknown"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","images":[{"url":"https://x.example/","alt":null}]}`, "images[0].alt: is null: leave it out instead"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","images":[{"url":"https://x.example/","alt":1}]}`, "images[0].alt: must not be a JSON number"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","images":null}`, "images: is null: leave it out instead"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","images":{}}`, "images: must not be a JSON object"},
		{`{"type":"post","id":"p","author_id":"bob","text":"x","time":"2024-01-31T12:00:00Z","image_url":"https://x.example/"}`, "image_url: is not a field of a post"},
		{`{"type":null}`, "type: is null: leave it out instead"},
		{`null`, "is not a JSON object: write one record a line, as docs/IMPORT.md shows"},
		{`id,name,bio`, "is not a JSON object: write one record a line, as docs/IMPORT.md shows"},
		{`{"type":"follow","follower_id":"a#b","author_id":"bob","time":"2024-01-31T12:00:00Z"}`, `follower_id: "a#b" is not a user id: use ` + id.UserGrammar},
		{`{"type":"follow","follower_id":"bob","author_id":"a#b","time":"2024-01-31T12:00:00Z"}`, `author_id: "a#b" is not a user id: use ` + id.UserGrammar},
		{`{"type":"follow","follower_id":"ann","author_id":"bob","from":"x","time":"2024-01-31T12:00:00Z"}`, `from: "x" is not the id of a post`},
	}
	for _, row := range lines {
		store := &dying{Store: tabletest.NewMemory(), left: 1, kill: func() { t.Errorf("%s was written", row.line) }}
		name := file(t, rec{"type": "user", "id": "bob", "name": "Bob", "time": ago(day)}, row.line)
		_, err := transfer.Import(t.Context(), config(store), []string{name})
		var invalid *transfer.InvalidError
		require.ErrorAsf(t, err, &invalid, "%s", row.line)
		assert.Containsf(t, invalid.Faults, name+":2: "+row.fault, "%s", row.line)
	}
	_, err := transfer.Import(t.Context(), config(tabletest.NewMemory()), []string{file(t,
		`{"type":"user","id":"ann","name":"\ud83d\ude00","time":"2016-12-31t23:59:60z"}`,
		`{"type":"post","id":"p","author_id":"ann","text":"x","time":"2024-01-31T12:00:00+01:00","edited_at":"2024-02-01T00:00:00.123456789012Z"}`,
	)})
	require.NoError(t, err, "valid times")
}

func TestTwentyFaultsAreNamedAndAllAreCounted(t *testing.T) {
	t.Parallel()
	for _, total := range []int{19, 20, 21, 45} {
		_, err := transfer.Import(t.Context(), config(tabletest.NewMemory()), []string{file(t, slices.Repeat([]any{"[]"}, total)...)})
		var invalid *transfer.InvalidError
		require.ErrorAs(t, err, &invalid)
		assert.Equal(t, []int{min(20, total), total}, []int{len(invalid.Faults), invalid.Total})
	}
}

func TestALineThatIsTooLongIsNamed(t *testing.T) {
	t.Parallel()
	name := file(t, network()[0], strings.Repeat("x", 1<<20))
	_, err := transfer.Import(t.Context(), config(tabletest.NewMemory()), []string{name})
	require.EqualError(t, err, name+":2: is longer than 1048576 bytes: is it JSON lines?")
}

func TestAUserMayHaveNoMoreThanTheAPIAllows(t *testing.T) {
	t.Parallel()
	for most, line := range map[string]rec{
		"ann mutes more than 1000 users":   {"type": "mute", "user_id": "ann", "other_id": "bob", "time": ago(day)},
		"ann has more than 1000 bookmarks": {"type": "bookmark", "user_id": "ann", "post_id": "p", "time": ago(day)},
		"ann has more than 1000 markers":   {"type": "marker", "user_id": "ann", "name": "n", "position": "1", "time": ago(day)},
	} {
		lines := slices.Repeat([]any{line}, 1002)
		lines[1001] = "[]"
		const other = ": is not a JSON object: write one record a line, as docs/IMPORT.md shows"
		for n, want := range map[int][]string{1001: {":1001: user_id: " + most, ":1002" + other}, 1000: {":1001" + other}} {
			name := file(t, append(slices.Clone(lines[:n]), "[]")...)
			_, err := transfer.Import(t.Context(), config(tabletest.NewMemory()), []string{name})
			var invalid *transfer.InvalidError
			require.ErrorAs(t, err, &invalid)
			for i, fault := range want {
				want[i] = name + fault
			}
			assert.Equal(t, want, invalid.Faults)
		}
	}
}

func TestNamesOfOtherRecordsMustBeInTheFilesOrInTheTable(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	posts, err := service(store, today).PostsByUser(t.Context(), access.As("ann"), "ann", feed.PostRange{}, page.Request{})
	require.NoError(t, err)

	more := []any{
		rec{"type": "user", "id": "dan", "name": "Dan", "time": ago(day)},
		rec{"type": "like", "post_id": posts.Items[0].ID, "user_id": "dan", "time": ago(day)},
		rec{"type": "follow", "follower_id": "dan", "author_id": "ann", "time": ago(day)},
	}
	bad := file(t, append(more,
		rec{"type": "like", "post_id": "p-old", "user_id": "dan", "time": ago(day)},
		rec{"type": "like", "post_id": id.Max, "user_id": "eve", "time": ago(day)},
		rec{"type": "bookmark", "post_id": id.Max, "user_id": "dan", "time": ago(day)},
		rec{"type": "follow", "follower_id": "dan", "author_id": "bob", "time": ago(day)},
		rec{"type": "follow", "follower_id": "dan", "author_id": "cid", "time": ago(day)},
		rec{"type": "follow", "follower_id": "dan", "author_id": "fay", "time": ago(day)},
	)...)
	_, err = transfer.Import(t.Context(), config(&dying{Store: store, left: 1, kill: func() { t.Error("written") }}), []string{bad})
	var invalid *transfer.InvalidError
	require.ErrorAs(t, err, &invalid)
	assert.ElementsMatch(t, []string{
		bad + `:4: post_id: "p-old" is not the id of a post of the files`,
		bad + `:5: post_id: post ` + id.Max + ` is neither in the files nor in the table`,
		bad + `:5: user_id: user eve is neither in the files nor in the table`,
		bad + `:9: follower_id: dan follows more than 3 users, the most of FANFARE_MAX_FOLLOWING`,
		bad + `:9: author_id: user fay is neither in the files nor in the table`,
	}, invalid.Faults)

	_, err = transfer.Import(t.Context(), config(store), []string{file(t, more...)})
	require.NoError(t, err)
	push, pull := texts(t, service(store, today.Add(time.Hour)), "dan")
	assert.Equal(t, []string{"this week"}, push)
	assert.Equal(t, push, pull)
}

func TestPostsOfAnAuthorWhoHasFollowersReachThem(t *testing.T) {
	t.Parallel()
	store := tabletest.NewMemory()
	_, err := transfer.Import(t.Context(), config(store), []string{file(t, network()...)})
	require.NoError(t, err)
	done, err := transfer.Import(t.Context(), config(store), []string{file(t,
		rec{"type": "post", "id": "p-later", "author_id": "ann", "text": "today", "time": ago(time.Hour)})})
	require.NoError(t, err)
	assert.Equal(t, 2, done.Entries)
	push, _ := texts(t, service(store, today.Add(time.Hour)), "bob")
	assert.Equal(t, []string{"today", "this week", "bob's"}, push)
}

func TestAnImportPaysForItsWriteUnits(t *testing.T) {
	t.Parallel()
	name := file(t, network()...)
	synctest.Test(t, func(t *testing.T) {
		cfg := config(tabletest.NewMemory())
		cfg.Rate = 10
		done, err := transfer.Import(t.Context(), cfg, []string{name})
		require.NoError(t, err)
		require.Greater(t, done.WCU, 80.0)
		assert.GreaterOrEqual(t, done.Seconds, (done.WCU-10)/10, "the first second's units are free")
		assert.Less(t, done.Seconds, 2*done.WCU/10)
	})
}
