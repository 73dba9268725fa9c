package messages_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/messages"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	eventID = "01JD8QJ4WZ0000000000000001"
	postID  = "01JD8QJ4WY0000000000000002"
)

func header() messages.Header {
	return messages.Header{EventID: eventID, Time: time.Date(2026, 11, 21, 9, 30, 0, 123e6, time.UTC), RequestID: "req-1"}
}

// events returns one event of each kind with every field set, and some events that are hard for a transport,
// by the name of the golden file.
func events() map[string]messages.Event {
	like := messages.Like{Header: header(), PostID: postID, UserID: "fan", AuthorID: "ann", LikeShards: 16}
	stored := like
	stored.Stored = true
	return map[string]messages.Event{
		"post_created": &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "Hello <world> & all", Images: []messages.Image{{URL: "https://example.com/a.png?x=1&y=2", Alt: "A <b>", Width: new(3), Height: new(2)}}}, LikeShards: 16},
		"post_created_minimal": &messages.PostCreated{
			Header: messages.Header{EventID: eventID, Time: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)},
			PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "no more than a producer must say"},
		},
		"post_created_custom": &messages.PostCreated{
			Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "Two photos <of> the harbour", Kind: "photo-album.v2", Data: messages.Data(`{"b":1e2,"a":[{"url":"https://example.com/1.jpg?x=1&y=2"},0.10,-0,12345678901234567890,"\u00e9é\ufffe"]}`), Mentions: []string{"bob", "auth0|5f7c"}, ExpiresAt: time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)}, LikeShards: 1,
		},
		"post_created_repost":  &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Reference: messages.Reference{RepostOf: eventID, OfAuthor: "bob", OfShards: 16}, LikeShards: 1},
		"post_created_quote":   &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "so true"}, Reference: messages.Reference{QuoteOf: eventID, OfAuthor: "bob", OfShards: 1}},
		"post_created_unicode": &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "👩‍👩‍👧 שלום \x00\x01\x7f\u2028\uFFFE\uFFFF\U0001FFFE end"}},
		"liked":                &messages.Liked{Like: like},
		"unliked":              &messages.Unliked{Like: like},
		"reacted":              &messages.Reacted{Like: stored, Reaction: "love"},
		"followed":             &messages.Followed{Header: header(), FollowerID: "fan", AuthorID: "ann", From: id.Min, MarkVersion: eventID, FollowID: eventID},
		"mark_walk":            &messages.MarkWalk{Header: header(), AuthorID: "ann", Walker: eventID},
		"seen":                 &messages.Seen{Header: header(), UserID: "fan"},
		"returned":             &messages.Returned{Header: header(), UserID: "fan", V: 2},
		"unfollowed":           &messages.Unfollowed{Header: header(), FollowerID: "fan", AuthorID: "ann", MarkVersion: eventID, Before: postID},
		"post_deleted":         &messages.PostDeleted{Header: header(), PostID: postID, AuthorID: "ann", Mentions: []string{"bob", "auth0|5f7c"}},
		"user_forgotten":       &messages.UserForgotten{Header: header(), UserID: "ann"},
		"profile_changed":      &messages.ProfileChanged{Header: header(), UserID: "ann", V: 1795252200123, Before: postID},
		"fanout_plan":          &messages.FanoutPlan{Header: header(), PostID: postID, AuthorID: "ann", First: "bob"},
		"fanout_chunk":         &messages.FanoutChunk{Header: header(), PostID: postID, AuthorID: "ann", First: "bob", End: "zoe"},
		"fanout_chunk_wide":    &messages.FanoutChunk{Header: header(), PostID: postID, AuthorID: "000123.0a1b2c.0456", First: "auth0|5f7c", End: "auth0|5f7c.@:|-_"},
		"post_delivered":       &messages.PostDelivered{Header: header(), PostID: postID, AuthorID: "ann", Delivered: 7, Skipped: 2, Pulled: true},
		"commented":            &messages.Commented{Header: header(), PostID: postID, AuthorID: "ann", CommentID: eventID, UserID: "fan", Deleted: true},
		"mentioned":            &messages.Mentioned{Header: header(), UserID: "bob", ActorID: "ann", PostID: postID, CommentID: eventID, Deleted: true},
		"reposted":             &messages.Reposted{Header: header(), PostID: eventID, AuthorID: "bob", RepostID: postID, UserID: "ann", Deleted: true},
		"notified":             &messages.Notified{Header: header(), UserID: "ann", NoticeKind: "like", Target: postID, ActorID: "fan"},
		"post_taken_down":      &messages.PostTakenDown{Header: header(), PostID: postID, AuthorID: "ann", Reason: "Advertises <fake> shoes & more", By: "moderation@clients", At: time.Date(2026, 11, 21, 9, 24, 0, 0, time.UTC)},
		"like_counted":         &messages.LikeCounted{Header: header(), PostID: postID, AuthorID: "ann", UserID: "fan", Reaction: "like", Liked: true, LikeCount: new(int64(3))},
	}
}

func TestWireFormatIsPinned(t *testing.T) {
	for name, event := range events() {
		t.Run(name, func(t *testing.T) {
			got, err := messages.Encode(event)
			require.NoError(t, err)
			file := filepath.Join("testdata", name+".json")
			if *update {
				require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(strings.TrimSuffix(string(want), "\n"), string(got)), "encoding changed (-golden +got)")
			back, err := messages.Decode(got)
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(event, back), "decoding lost something (-want +got)")
		})
	}
}

// A producer that writes null for each field that it does not use sends the same event.
func TestNullInAnOptionalFieldIsAsAbsent(t *testing.T) {
	for name, event := range events() {
		payload, err := messages.Encode(event)
		require.NoError(t, err)
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(payload, &members))
		for field := range optional(reflect.TypeOf(event).Elem()) {
			without, null := maps.Clone(members), maps.Clone(members)
			delete(without, field)
			null[field] = json.RawMessage("null")
			want, wantErr := messages.Decode(marshal(t, without))
			got, err := messages.Decode(marshal(t, null))
			assert.Equalf(t, wantErr, err, "%s: %s", name, field)
			assert.Emptyf(t, cmp.Diff(want, got), "%s: %s", name, field)
		}
	}
}

// optional returns the names of the fields that an event may leave out.
func optional(of reflect.Type) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, field := range reflect.VisibleFields(of) {
			options := strings.Split(field.Tag.Get("json"), ",")
			if slices.Contains(options, "omitempty") && !yield(options[0]) {
				return
			}
		}
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// Tests of other packages take an event of each kind from the golden files.
func TestEveryKindHasAGoldenFile(t *testing.T) {
	golden := map[messages.Kind]bool{}
	for _, event := range events() {
		golden[messages.KindOf(event)] = true
	}
	for _, kind := range messages.Kinds() {
		assert.Truef(t, golden[kind], "events has no %s", kind)
	}
}

func TestPayloadHasOnlyCharactersThatSQSAccepts(t *testing.T) {
	for name, event := range events() {
		payload, err := messages.Encode(event)
		require.NoError(t, err)
		for _, r := range string(payload) {
			assert.Truef(t, acceptedBySQS(r), "%s: payload has %U", name, r)
		}
	}
}

// acceptedBySQS reports whether r is in the character set of SQS's SendMessage.
func acceptedBySQS(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || 0x20 <= r && r <= 0xD7FF || 0xE000 <= r && r <= 0xFFFD || 0x10000 <= r && r <= 0x10FFFF
}

func TestDecodeIgnoresUnknownFields(t *testing.T) {
	payload, err := messages.Encode(events()["liked"])
	require.NoError(t, err)
	payload = bytes.Replace(payload, []byte(`{`), []byte(`{"added_in_a_later_release":{"x":[1]},`), 1)
	got, err := messages.Decode(payload)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(events()["liked"], got))
}

func TestDecodeRefusesForGood(t *testing.T) {
	valid, err := messages.Encode(events()["fanout_chunk"])
	require.NoError(t, err)
	change := func(old, with string) string {
		require.Contains(t, string(valid), old)
		return strings.Replace(string(valid), old, with, 1)
	}
	for name, row := range map[string]struct{ payload, reason string }{
		"empty":             {``, "not a JSON object"},
		"not an object":     {`[]`, "not a JSON object"},
		"invalid UTF-8":     {"{\"type\":\"\xff\"}", "type: is not well-formed JSON: invalid UTF-8"},
		"no type":           {`{"version":1}`, `unknown type ""`},
		"unknown type":      {change(`"FanoutChunk"`, `"Poked"`), `unknown type "Poked"`},
		"no version":        {change(`"version":1,`, ``), "version 0"},
		"newer version":     {change(`"version":1`, `"version":2`), "version 2"},
		"wrong field type":  {change(`"zoe"`, `7`), "FanoutChunk: end: must not be a JSON number"},
		"missing event id":  {change(`"event_id":"`+eventID+`",`, ``), "event_id is not a ULID"},
		"lower-case id":     {change(eventID, strings.ToLower(eventID)), "event_id is not a ULID"},
		"missing time":      {change(`"time":"2026-11-21T09:30:00.123Z",`, ``), "time is missing"},
		"bad time":          {change(`2026-11-21T09`, `2026-11-21 09`), "FanoutChunk: "},
		"bad post id":       {change(postID, "nope"), "post_id is not a ULID"},
		"bad author":        {change(`"ann"`, `"a#b"`), "author_id is not a user id"},
		"end below first":   {change(`"zoe"`, `"amy"`), `end "amy" is not above first "bob"`},
		"bad bound":         {change(`"bob"`, `"b b"`), "first is not a user id"},
		"a field twice":     {change(`"end":"zoe"`, `"end":"zoe","end":"zzz"`), "FanoutChunk: end: occurs more than once"},
		"a type twice":      {change(`"end"`, `"type":"Liked","end"`), "FanoutChunk: type: occurs more than once"},
		"an unknown twice":  {change(`"end"`, `"x":{"y":1,"y":2},"end"`), "FanoutChunk: x.y: occurs more than once"},
		"another case":      {change(`"author_id"`, `"AUTHOR_ID"`), "author_id is not a user id"},
		"half a surrogate":  {change(`"end"`, `"x":"\ud83d","end"`), "FanoutChunk: x: is not well-formed JSON: invalid surrogate pair"},
		"data after it":     {string(valid) + `{}`, "after top-level value"},
		"a deep value":      {change(`"end"`, `"x":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`,"end"`), "exceeded max depth"},
		"a comma":           {change(`00.123Z`, `00,123Z`), "FanoutChunk: time: is not a time of RFC 3339"},
		"an hour's digit":   {change(`T09:30`, `T9:30`), "FanoutChunk: time: is not a time of RFC 3339"},
		"number as version": {change(`"version":1`, `"version":1.5`), "not a JSON object with type and version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := messages.Decode([]byte(row.payload))
			permanent, ok := errors.AsType[*messages.PermanentError](err)
			require.Truef(t, ok, "got %v, want a PermanentError", err)
			assert.Contains(t, permanent.Detail, row.reason)
		})
	}
}

func TestEncodeRefusesEventsThatNoConsumerAccepts(t *testing.T) {
	var none *messages.Liked
	for name, event := range map[string]messages.Event{
		"nil":         nil,
		"nil pointer": none,
		"no header":   &messages.Liked{Like: messages.Like{PostID: postID, UserID: "fan"}},
		"no user":     &messages.Liked{Like: messages.Like{Header: header(), PostID: postID}},
		"no return":   &messages.Returned{Header: header(), UserID: "fan"},
		"repost":      &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Reference: messages.Reference{RepostOf: eventID, OfAuthor: "bob"}},
		"full repost": &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "x"}, Reference: messages.Reference{RepostOf: eventID, OfAuthor: "bob"}, LikeShards: 1},
		"two posts":   &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Reference: messages.Reference{RepostOf: eventID, QuoteOf: eventID, OfAuthor: "bob"}, LikeShards: 1},
		"no author":   &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "x"}, Reference: messages.Reference{QuoteOf: eventID}},
		"no quote":    &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "x"}, Reference: messages.Reference{OfAuthor: "bob"}},
		"of shards":   &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Text: "x"}, Reference: messages.Reference{QuoteOf: eventID, OfAuthor: "bob", OfShards: 101}},
		"kind":        &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Kind: "Album"}},
		"data":        &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{Data: messages.Data(`{"a":1,"a":2}`)}},
		"mentions":    &messages.PostDeleted{Header: header(), PostID: postID, AuthorID: "ann", Mentions: []string{"bob", "bob"}},
		"an end":      &messages.PostCreated{Header: header(), PostID: postID, AuthorID: "ann", Content: messages.Content{ExpiresAt: time.Unix(1, 0)}},
		"no kind":     &messages.Reacted{Like: messages.Like{Header: header(), PostID: postID, UserID: "fan"}},
		"like":        &messages.Reacted{Like: messages.Like{Header: header(), PostID: postID, UserID: "fan"}, Reaction: "like"},
		"upper case":  &messages.Reacted{Like: messages.Like{Header: header(), PostID: postID, UserID: "fan"}, Reaction: "Love"},
		"long kind":   &messages.Reacted{Like: messages.Like{Header: header(), PostID: postID, UserID: "fan"}, Reaction: "abcdefghijklm"},
		"digit first": &messages.Reacted{Like: messages.Like{Header: header(), PostID: postID, UserID: "fan"}, Reaction: "1up"},
		"liked love":  &messages.LikeCounted{Header: header(), PostID: postID, AuthorID: "ann", UserID: "fan", Reaction: "love", Liked: true},
		"shards":      &messages.Liked{Like: messages.Like{Header: header(), PostID: postID, UserID: "fan", LikeShards: 101}},
	} {
		payload, err := messages.Encode(event)
		assert.Errorf(t, err, "%s: encoded as %s", name, payload)
	}
}

func TestAgeIsTakenFromTheID(t *testing.T) {
	at, err := id.Time(eventID)
	require.NoError(t, err)
	for name, row := range map[string]struct {
		now       time.Time
		permanent bool
		wait      time.Duration
	}{
		"at once":              {at, false, 0},
		"as old as may be":     {at.Add(messages.MaxAge), false, 0},
		"too old":              {at.Add(messages.MaxAge + time.Millisecond), true, 0},
		"as early as may":      {at.Add(-messages.MaxAhead), false, 0},
		"too early":            {at.Add(-messages.MaxAhead - time.Millisecond), false, time.Millisecond},
		"as early as may wait": {at.Add(-messages.MaxAhead - messages.MaxWait), false, messages.MaxWait},
		"from the future":      {at.Add(-messages.MaxAhead - messages.MaxWait - time.Millisecond), true, 0},
		"decades afterward":    {at.AddDate(50, 0, 0), true, 0},
	} {
		err := messages.CheckAge(events()["liked"], row.now)
		_, permanent := errors.AsType[*messages.PermanentError](err)
		early, isEarly := errors.AsType[*messages.EarlyError](err)
		if permanent != row.permanent || isEarly != (row.wait > 0) || isEarly && early.Wait != row.wait {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGroupsKeepFairness(t *testing.T) {
	for name, want := range map[string]string{
		"post_created": "ann", "liked": postID, "unliked": postID, "reacted": postID, "followed": "fan", "unfollowed": "fan", "seen": "fan", "returned": "fan", "fanout_plan": "ann", "fanout_chunk": "ann",
		"post_delivered": "ann", "like_counted": postID,
	} {
		assert.Equal(t, want, messages.GroupOf(events()[name]), name)
	}
}

// Package id, the schemas and all events agree about the validity of a user id, and a valid id passes through
// the events unchanged.
func FuzzUserIDs(f *testing.F) {
	for _, user := range []string{"ann", "auth0|5f7c8ec7", "000123.0a1b.0456", "google-oauth2|1", "a@b:c", "..", ".a", "a~", "a#b", "a\n", "", strings.Repeat("a", 65)} {
		f.Add(user)
	}
	var schema struct {
		Properties map[string]struct{ Pattern string }
	}
	text, err := os.ReadFile(filepath.Join("schema", "Followed.json"))
	require.NoError(f, err)
	require.NoError(f, json.Unmarshal(text, &schema))
	pattern := regexp.MustCompile(schema.Properties["follower_id"].Pattern)
	f.Fuzz(func(t *testing.T, user string) {
		valid := id.ValidUser(user)
		require.Equal(t, valid, pattern.MatchString(user), "by the schema")
		for _, event := range []messages.Event{
			&messages.Followed{Header: header(), FollowerID: user, AuthorID: user, From: id.Min, MarkVersion: eventID},
			&messages.Unfollowed{Header: header(), FollowerID: user, AuthorID: user, MarkVersion: eventID},
			&messages.PostCreated{Header: header(), PostID: postID, AuthorID: user},
			&messages.Liked{Like: messages.Like{Header: header(), PostID: postID, UserID: user}},
			&messages.PostDeleted{Header: header(), PostID: postID, AuthorID: user},
			&messages.MarkWalk{Header: header(), AuthorID: user}, &messages.Seen{Header: header(), UserID: user},
			&messages.Returned{Header: header(), UserID: user, V: 1},
			&messages.FanoutPlan{Header: header(), PostID: postID, AuthorID: user, First: user},
			&messages.FanoutChunk{Header: header(), PostID: postID, AuthorID: user, End: user},
		} {
			payload, err := messages.Encode(event)
			require.Equal(t, valid, err == nil, messages.KindOf(event))
			if valid {
				back, err := messages.Decode(payload)
				require.NoError(t, err)
				require.Equal(t, event, back)
			}
		}
	})
}

// The time of an event is any of RFC 3339.
func TestDecodeReadsTimesOfRFC3339(t *testing.T) {
	valid, err := messages.Encode(events()["liked"])
	require.NoError(t, err)
	for text, want := range map[string]time.Time{
		"2026-01-01t00:00:00z":           time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2016-12-31T23:59:60Z":           time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01T01:00:00.5+01:00":    time.Date(2026, 1, 1, 0, 0, 0, 500_000_000, time.UTC),
		"2026-01-01T00:00:00.123456789Z": time.Date(2026, 1, 1, 0, 0, 0, 123_456_789, time.UTC),
	} {
		event, err := messages.Decode(bytes.Replace(valid, []byte("2026-11-21T09:30:00.123Z"), []byte(text), 1))
		require.NoErrorf(t, err, "%s", text)
		assert.Equalf(t, want, event.Head().Time, "%s", text)
	}
}

// No payload makes Decode panic, and an event that decodes stays the same when it is
// encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, event := range events() {
		payload, err := messages.Encode(event)
		require.NoError(f, err)
		f.Add(payload)
	}
	f.Add([]byte(`{"type":"Liked","version":1,"event_id":null}`))
	f.Add([]byte(`{"version":1,"type":"Liked","event_id":"01JD8QJ4WZ0000000000000001","post_id":"01JD8QJ4WZ0000000000000001","user_id":"ann","time":"2016-12-31t23:59:60z"}`))
	for _, images := range []string{`[]`, `null`, `[null]`, `[{"url":"https://x.example/","alt":null,"width":0,"height":1}]`, `[{"url":"https://x.example/\ufffe","alt":"\u2028","width":1e0}]`} {
		f.Add([]byte(`{"type":"PostCreated","version":1,"event_id":"01JD8QJ4WZ0000000000000001","time":"2026-11-22T12:00:00Z","post_id":"01JD8QJ4WZ0000000000000001","author_id":"ann","images":` + images + `}`))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		event, err := messages.Decode(payload)
		if err != nil {
			require.ErrorAs(t, err, new(*messages.PermanentError), "an error of another type")
			return
		}
		encoded, err := messages.Encode(event)
		require.NoError(t, err, "decoded, but does not encode")
		back, err := messages.Decode(encoded)
		require.NoError(t, err, "encoded, but does not decode")
		require.Empty(t, cmp.Diff(event, back, cmpopts.EquateEmpty()))
	})
}
