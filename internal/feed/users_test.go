package feed_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// hostile is a text of valid Unicode that breaks other programs. unusual is the part of hostile that a
// name may contain.
const (
	hostile = unusual + "\x00 \uFFFE\uFFFF\u202E\r\n\t"
	unusual = " 👩🏽\u200d🚀 שלום a\u0301 e\u0301 می\u200cخواهم \"<b>' "
)

func TestProfilesComeBackAsTheyWereSent(t *testing.T) {
	w := newWorld(t)
	in := feed.ProfileInput{Name: unusual, Bio: unusual + "\r\n\t\u200f", ImageURL: "https://example.com/a?b=c#d"}
	made, err := w.PutProfile(t.Context(), "ann", in)
	require.NoError(t, err)
	created := w.clock.now()
	w.clock.add(time.Hour)
	got, err := w.User(t.Context(), "ann")
	require.NoError(t, err)
	want := feed.User{ID: "ann", Name: unusual, Bio: in.Bio, ImageURL: in.ImageURL, CreatedAt: created}
	assert.Equal(t, want, made)
	assert.Equal(t, want, got)
	changed, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	assert.Equal(t, feed.User{ID: "ann", Name: "Ann", CreatedAt: created}, changed)
}

func TestConcurrentFirstProfilesAgreeOnTheirCreation(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			w.clock.add(time.Second)
			if _, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	u, err := w.User(t.Context(), "ann")
	require.NoError(t, err)
	again, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann"})
	if err != nil || !again.CreatedAt.Equal(u.CreatedAt) {
		t.Errorf("created at %s, then at %s: %v", u.CreatedAt, again.CreatedAt, err)
	}
}

// Between the read and the write of a call, another call makes or removes the profile.
func TestAProfileThatOthersMakeOrRemoveMeanwhile(t *testing.T) {
	w, tp := tapped(t)
	key := schema.ProfileKey("ann")
	others := schema.Profile{User: "ann", Name: "Other", CreatedAt: w.clock.now().Add(-time.Hour)}
	onNth(tp, 1, call{op: table.OpTransact, key: key}, func() {
		_, err := tp.Store.Put(t.Context(), table.PutInput{Item: others.Item()})
		assert.NoError(t, err)
	})
	want := feed.User{ID: "ann", Name: "Ann", CreatedAt: others.CreatedAt}
	made, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	assert.Equal(t, want, made)
	got, err := w.User(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, want, got)
	onNth(tp, 1, call{op: table.OpPut, key: key}, func() {
		_, err := tp.Store.Delete(t.Context(), table.DeleteInput{Key: key})
		assert.NoError(t, err)
	})
	want = feed.User{ID: "ann", Name: "Anna", CreatedAt: w.clock.now()}
	made, err = w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Anna"})
	require.NoError(t, err)
	assert.Equal(t, want, made, "a removed profile does not come back: this is a new one")
}

// The server fetches no image. Clients fetch images, and may write the URL into a page.
func TestAnImageURLIsOneThatClientsCanShow(t *testing.T) {
	w, _, _ := newStage(t)
	for url, ok := range map[string]bool{
		"https://e.com/a.png?b=c&d=(1),2#e": true, "HTTP://e.com": true, "https://e.com:8443/%22%20%3C.png": true,
		"https://[2001:db8::1]/a.png": true, "https://bücher.example/é.png": true, "https://e.com/a@2x.png": true,

		`https://e.com/"><script>`: false, "https://e.com/a'b": false, "https://e.com/`": false,
		"https://e.com/<b": false, "https://e.com/a>b": false,
		"https://e.com/a b.png": false, " https://e.com/": false, "https://e.com/ ": false, "https://e.com/a\u00a0b": false, "https://e.com/?a b": false,
		"https://e.com/a\nb": false, "https://e.com/\x7f": false, "https://e.com/a\tb": false, "https://e.com/\u0085": false, "https://e.com/#\u2028": false,
		"https://ann@e.com/": false, "https://ann:secret@e.com/a.png": false, "https://@e.com/": false,
		"https://e.com/%zz": false, "https://": false, "https://:443/": false, "https:e.com": false, "https:/e.com": false, "//e.com/a": false,
		"https://e.com\\@evil.example/": false,
	} {
		_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann", ImageURL: url})
		assert.Equalf(t, ok, err == nil, "%q: %v", url, err)
		if e, refused := errors.AsType[*fault.Error](err); err != nil && (!refused || len(e.Fields) != 1 || e.Fields[0].Field != "image_url") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// The API, imports and other producers have the same rule (the tests of package display have the
// cases).
func TestNamesAndURLsThatDeceiveAreRefusedEverywhere(t *testing.T) {
	w, _, _ := newStage(t)
	post := w.post("ann", "a post")
	url := "https://e.com/\u202egnp.exe"
	for _, in := range []feed.ProfileInput{{Name: "\u200b"}, {Name: "Ann\u202e"}, {Name: "A\nnn"}, {Name: "A\x00"}, {Name: "Ann", Bio: "\u202e"}, {Name: "Ann", ImageURL: url}} {
		_, err := w.PutProfile(t.Context(), "ann", in)
		wantKind(t, err, fault.Invalid)
		wantKind(t, w.ImportUser(t.Context(), "new", in, longAgo), fault.Invalid)
		assert.Len(t, in.Check(), 1, "%+q", in)
	}
	_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "a", Images: []feed.Image{{URL: url}}}})
	wantKind(t, err, fault.Invalid)
	_, err = w.EditPost(t.Context(), "ann", post.ID, feed.PostEdit{Images: &[]feed.Image{{URL: url}}})
	wantKind(t, err, fault.Invalid)
	_, err = w.ImportPost(t.Context(), schema.Post{ID: id.Floor(longAgo), Author: "ann", Content: schema.Content{Text: "old", Images: []feed.Image{{URL: url}}}})
	wantKind(t, err, fault.Invalid)
	made := w.ids(1)[0]
	_, err = w.EnsurePost(t.Context(), &messages.PostCreated{Header: messages.Header{EventID: made, Time: w.clock.now()}, PostID: made, AuthorID: "ann", Content: messages.Content{Text: "a", Images: []feed.Image{{URL: url}}}})
	require.ErrorAs(t, err, new(*messages.PermanentError))
	assert.Empty(t, feed.PostInput{Content: feed.Content{Text: "a\x00\u202e\n"}}.Check(), "a post is in a block of its own")
}

func TestValuesOutsideTheDomainAreNamed(t *testing.T) {
	w, _, s := newStage(t)
	ctx := t.Context()
	long := func(n int) string { return strings.Repeat("é", n) }
	text := func(s string) *string { return &s }
	profile := func(in feed.ProfileInput) func() error {
		return func() error { _, err := w.PutProfile(ctx, "ann", in); return err }
	}
	post := func(in feed.PostInput) func() error {
		return func() error { _, err := w.CreatePost(ctx, "ann", in); return err }
	}
	edit := func(in feed.PostEdit) func() error {
		return func() error { _, err := w.EditPost(ctx, "bob", s.post.ID, in); return err }
	}
	comment := func(text string) func() error {
		return func() error { _, err := w.CreateComment(ctx, "ann", s.post.ID, text); return err }
	}
	for name, c := range map[string]struct {
		do     func() error
		fields []string
	}{
		"longest name and bio":    {profile(feed.ProfileInput{Name: long(100), Bio: long(500), ImageURL: "http://e.com/" + long(2035)}), nil},
		"no name":                 {profile(feed.ProfileInput{}), []string{"name"}},
		"all of a profile":        {profile(feed.ProfileInput{Name: long(101), Bio: long(501), ImageURL: "ftp://e.com"}), []string{"name", "bio", "image_url"}},
		"image URL too long":      {profile(feed.ProfileInput{Name: "a", ImageURL: "http://e.com/" + long(2036)}), []string{"image_url"}},
		"image URL without host":  {profile(feed.ProfileInput{Name: "a", ImageURL: "http:///a"}), []string{"image_url"}},
		"image URL of a script":   {profile(feed.ProfileInput{Name: "a", ImageURL: "javascript:alert(1)"}), []string{"image_url"}},
		"relative image URL":      {profile(feed.ProfileInput{Name: "a", ImageURL: "/a.png"}), []string{"image_url"}},
		"name is not UTF-8":       {profile(feed.ProfileInput{Name: "\xff"}), []string{"name"}},
		"longest text":            {post(feed.PostInput{Content: feed.Content{Text: long(5000)}, IdempotencyKey: strings.Repeat("~", 255)}), nil},
		"no text":                 {post(feed.PostInput{}), []string{"text"}},
		"text too long":           {post(feed.PostInput{Content: feed.Content{Text: long(5001), Images: []feed.Image{{URL: "x"}}}}), []string{"text", "images[0].url"}},
		"key too long":            {post(feed.PostInput{Content: feed.Content{Text: "a"}, IdempotencyKey: strings.Repeat("k", 256)}), []string{"Idempotency-Key"}},
		"key with a blank":        {post(feed.PostInput{Content: feed.Content{Text: "a"}, IdempotencyKey: "a b"}), []string{"Idempotency-Key"}},
		"key that is not ASCII":   {post(feed.PostInput{Content: feed.Content{Text: "a"}, IdempotencyKey: "é"}), []string{"Idempotency-Key"}},
		"edit of nothing":         {edit(feed.PostEdit{}), []string{"text"}},
		"edit to no text":         {edit(feed.PostEdit{Text: text("")}), []string{"text"}},
		"edit to a bad image":     {edit(feed.PostEdit{Images: &[]feed.Image{{URL: "x"}}}), []string{"images[0].url"}},
		"edit that takes the img": {edit(feed.PostEdit{Images: &[]feed.Image{}}), nil},
		"longest comment":         {comment(long(5000)), nil},
		"no comment":              {comment(""), []string{"text"}},
		"comment too long":        {comment(long(5001)), []string{"text"}},
		"following oneself":       {func() error { return w.Follow(ctx, "ann", "ann") }, []string{"id"}},
		"unfollowing oneself":     {func() error { return w.Unfollow(ctx, "ann", "ann") }, []string{"id"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do()
			if c.fields == nil {
				require.NoError(t, err)
				return
			}
			wantKind(t, err, fault.Invalid)
			e, _ := errors.AsType[*fault.Error](err)
			var fields []string
			for _, f := range e.Fields {
				fields = append(fields, f.Field)
			}
			assert.Equalf(t, strings.Join(c.fields, " "), strings.Join(fields, " "), "it names %q, want %q", fields, c.fields)
		})
	}
}

func TestAbsentThingsAreNotFoundAndStrangersForbidden(t *testing.T) {
	w, _, s := newStage(t)
	ctx := t.Context()
	gone := w.post("bob", "gone")
	goneComment, err := w.CreateComment(ctx, "ann", gone.ID, "gone")
	require.NoError(t, err)
	w.deliver()
	require.NoError(t, w.DeletePost(ctx, "bob", gone.ID))
	unknown := "01J00000000000000000000000"
	text := "x"
	var first page.Request
	rows := map[string]struct {
		do   func() error
		want fault.Kind
	}{
		"an unknown user":                   {func() error { _, err := w.User(ctx, "nobody"); return err }, fault.NotFound},
		"followers of an unknown user":      {func() error { return pageOf(w.Followers(ctx, "nobody", first)) }, fault.NotFound},
		"following of an unknown user":      {func() error { return pageOf(w.Following(ctx, "nobody", "nobody", first)) }, fault.NotFound},
		"friends of an unknown user":        {func() error { return pageOf(w.Friends(ctx, "nobody", first)) }, fault.NotFound},
		"posts of an unknown user":          {func() error { return pageOf(w.PostsByUser(ctx, access.Viewer{}, "nobody", feed.PostRange{}, first)) }, fault.NotFound},
		"comments of an unknown user":       {func() error { return pageOf(w.CommentsByUser(ctx, access.Viewer{}, "nobody", first)) }, fault.NotFound},
		"likes of an unknown user":          {func() error { return pageOf(w.LikesByUser(ctx, access.Viewer{}, "nobody", first)) }, fault.NotFound},
		"relationship of an unknown user":   {func() error { _, err := w.Relationship(ctx, "nobody", "nobody", "ann"); return err }, fault.NotFound},
		"relationship with an unknown user": {func() error { _, err := w.Relationship(ctx, "ann", "ann", "nobody"); return err }, fault.NotFound},
		"relationship with oneself":         {func() error { _, err := w.Relationship(ctx, "ann", "ann", "ann"); return err }, 0},
		"following an unknown user":         {func() error { return w.Follow(ctx, "ann", "nobody") }, fault.NotFound},
		"unfollowing an unknown user":       {func() error { return w.Unfollow(ctx, "ann", "nobody") }, fault.NotFound},
		"unfollowing someone not followed":  {func() error { return w.Unfollow(ctx, "ann", "bob") }, 0},
		"following without a profile":       {func() error { return w.Follow(ctx, "nobody", "ann") }, fault.ProfileMissing},
		"unfollowing without a profile":     {func() error { return w.Unfollow(ctx, "nobody", "ann") }, fault.ProfileMissing},
		"posting without a profile": {func() error {
			_, err := w.CreatePost(ctx, "nobody", feed.PostInput{Content: feed.Content{Text: "x"}})
			return err
		}, fault.ProfileMissing},
		"commenting without a profile":      {func() error { _, err := w.CreateComment(ctx, "nobody", s.post.ID, "x"); return err }, fault.ProfileMissing},
		"editing without a profile":         {func() error { _, err := w.EditPost(ctx, "nobody", s.post.ID, feed.PostEdit{Text: &text}); return err }, fault.ProfileMissing},
		"deleting without a profile":        {func() error { return w.DeletePost(ctx, "nobody", s.post.ID) }, fault.ProfileMissing},
		"uncommenting without a profile":    {func() error { return w.DeleteComment(ctx, "nobody", s.post.ID, s.comment.ID) }, fault.ProfileMissing},
		"liking without a profile":          {func() error { return w.Like(ctx, "nobody", s.post.ID) }, fault.ProfileMissing},
		"liking nothing without a profile":  {func() error { return w.Like(ctx, "nobody", unknown) }, fault.ProfileMissing},
		"unliking without a profile":        {func() error { return w.Unlike(ctx, "nobody", s.post.ID) }, fault.ProfileMissing},
		"an unknown post":                   {func() error { _, err := w.Post(ctx, access.Viewer{}, unknown); return err }, fault.NotFound},
		"the delivery of an unknown post":   {func() error { _, err := w.Delivery(ctx, "bob", unknown); return err }, fault.NotFound},
		"the delivery of a deleted post":    {func() error { _, err := w.Delivery(ctx, "bob", gone.ID); return err }, 0},
		"somebody else's delivery":          {func() error { _, err := w.Delivery(ctx, "ann", s.post.ID); return err }, fault.Forbidden},
		"a deleted post":                    {func() error { _, err := w.Post(ctx, access.Viewer{}, gone.ID); return err }, fault.NotFound},
		"editing somebody else's post":      {func() error { _, err := w.EditPost(ctx, "ann", s.post.ID, feed.PostEdit{Text: &text}); return err }, fault.Forbidden},
		"editing an unknown post":           {func() error { _, err := w.EditPost(ctx, "ann", unknown, feed.PostEdit{Text: &text}); return err }, fault.NotFound},
		"editing a deleted post":            {func() error { _, err := w.EditPost(ctx, "bob", gone.ID, feed.PostEdit{Text: &text}); return err }, fault.NotFound},
		"deleting somebody else's post":     {func() error { return w.DeletePost(ctx, "ann", s.post.ID) }, fault.Forbidden},
		"deleting a deleted post":           {func() error { return w.DeletePost(ctx, "bob", gone.ID) }, fault.NotFound},
		"commenting on a deleted post":      {func() error { _, err := w.CreateComment(ctx, "ann", gone.ID, "x"); return err }, fault.NotFound},
		"comments of a deleted post":        {func() error { return pageOf(w.Comments(ctx, access.Viewer{}, gone.ID, first)) }, fault.NotFound},
		"comments of an unknown post":       {func() error { return pageOf(w.Comments(ctx, access.Viewer{}, unknown, first)) }, fault.NotFound},
		"deleting a comment of a gone post": {func() error { return w.DeleteComment(ctx, "ann", gone.ID, goneComment.ID) }, fault.NotFound},
		"deleting an unknown comment":       {func() error { return w.DeleteComment(ctx, "ann", s.post.ID, unknown) }, fault.NotFound},
		"deleting another post's comment":   {func() error { return w.DeleteComment(ctx, "ann", s.post.ID, goneComment.ID) }, fault.NotFound},
		"deleting somebody else's comment":  {func() error { return w.DeleteComment(ctx, "cid", s.post.ID, s.comment.ID) }, fault.Forbidden},
		"liking a deleted post":             {func() error { return w.Like(ctx, "ann", gone.ID) }, fault.NotFound},
		"unliking a deleted post":           {func() error { return w.Unlike(ctx, "ann", gone.ID) }, fault.NotFound},
		"liking an unknown post":            {func() error { return w.Like(ctx, "ann", unknown) }, fault.NotFound},
		"likers of a deleted post":          {func() error { return pageOf(w.Likers(ctx, access.Viewer{}, gone.ID, first)) }, fault.NotFound},
		"like count of a deleted post":      {func() error { _, err := w.LikeCount(ctx, access.Viewer{}, gone.ID); return err }, fault.NotFound},
		"a like that is not there":          {func() error { _, err := w.LikeOf(ctx, access.Viewer{}, s.post.ID, "ann"); return err }, fault.NotFound},
		"a like of a deleted post":          {func() error { _, err := w.LikeOf(ctx, access.Viewer{}, gone.ID, "ann"); return err }, fault.NotFound},
		"a post author deleting a comment": {func() error {
			c, err := w.CreateComment(ctx, "ann", s.post.ID, "x")
			if err != nil {
				return err
			}
			return w.DeleteComment(ctx, "bob", s.post.ID, c.ID)
		}, 0},
		"liking one's own post":            {func() error { return w.Like(ctx, "bob", s.post.ID) }, 0},
		"an empty home of an unknown user": {func() error { return pageOf(w.Home(ctx, "nobody", home.Query{}, first)) }, 0},
		"an empty list of likes":           {func() error { return pageOf(w.LikesByUser(ctx, access.Viewer{}, "cid", first)) }, 0},
		"an empty range of posts": {func() error {
			return pageOf(w.PostsByUser(ctx, access.Viewer{}, "cid", feed.PostRange{Until: time.Unix(1, 0)}, first))
		}, 0},
		"an empty range of an unknown user's": {func() error {
			return pageOf(w.PostsByUser(ctx, access.Viewer{}, "nobody", feed.PostRange{Until: time.UnixMilli(-1)}, first))
		}, fault.NotFound},
	}
	for name, row := range rows {
		err := row.do()
		if row.want == 0 {
			assert.NoError(t, err, name)
			continue
		}
		t.Run(name, func(t *testing.T) { wantKind(t, err, row.want) })
	}
}

func TestLikesByUserCanBeOff(t *testing.T) {
	w := newWorld(t, func(c *config) { c.LikesByUser = false })
	w.users("ann")
	wantKind(t, pageOf(w.LikesByUser(t.Context(), access.Viewer{}, "ann", page.Request{})), fault.IndexOff)
}

func TestAUserFollowsAsManyAsTheLimitAllows(t *testing.T) {
	const most, tried = 5, 12
	w := newWorld(t, func(c *config) { c.MaxFollowing = most })
	names := numbered(tried, "author")
	w.users("ann")
	w.users(names...)
	var followed atomic.Int64
	var calls sync.WaitGroup
	for _, name := range names {
		calls.Go(func() {
			err := w.Follow(t.Context(), "ann", name)
			if e, refused := errors.AsType[*fault.Error](err); err == nil {
				followed.Add(1)
			} else if !refused || e.Kind != fault.Limit {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	following := func() []string {
		return edgeUsers(list(t, 100, func(in page.Request) (page.List[feed.Edge], error) { return w.Following(t.Context(), "ann", "ann", in) }))
	}
	shown := following()
	if followed.Load() != most || len(shown) != most {
		t.Fatalf("%d follows were answered with success, %d are there, want %d", followed.Load(), len(shown), most)
	}
	w.follow("ann", shown[0]) // a repeated follow is not a new follow
	require.NoError(t, w.Unfollow(t.Context(), "ann", shown[0]))
	w.follow("ann", shown[0])
	// Another process has a lower limit: earlier follows stay.
	lower := newDomain(config{way: way{
		Store: w.store, Publisher: w.published, IDs: id.NewGenerator(w.clock.now), Now: w.clock.now, Lifetimes: lifetime.Fixed(timelineTTL),
	}, service: service{MaxFollowing: 2}})
	assert.NoError(t, lower.Follow(t.Context(), "ann", shown[1]))
	assert.NoError(t, lower.Unfollow(t.Context(), "ann", shown[1]))
	wantKind(t, lower.Follow(t.Context(), "ann", shown[1]), fault.Limit)
	assert.Len(t, following(), most-1, "follows are left")
}
