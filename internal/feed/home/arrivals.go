package home

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// Posts arrive in a home in any order, because a fan-out takes time and clocks differ. So a live home
// cannot continue from the newest id that it sent. A live home remembers the posts of a window, and
// reads the window again at each look (docs/decisions/0023).
const (
	// windowPosts is the maximum number of posts in a window. windowLeast is the number of newest posts
	// that a window keeps at any age.
	windowPosts = 100
	windowLeast = page.DefaultLimit
	// windowTime is longer than any clock skew and any fan-out.
	windowTime = 10 * time.Minute
	// lookPosts is the number of posts that a look reads, including the posts of the window. lookPosts
	// bounds a look (I11). It is above windowPosts, so that each look makes progress.
	lookPosts = windowPosts + 1000
	// refsAge is the age from which references are checked again before their posts are sent, because a
	// follow may have ended since the references were read (I2).
	refsAge = time.Second
	// lookTime is the time for which a look sends posts after it has read their references. If the table
	// is slow, the next look reads the references again, together with new references.
	lookTime = 10 * time.Second
	// commitTime is longer than the time until all items of a transaction are visible.
	commitTime = 10 * time.Second
)

// Streamed is the part of a home that a reader has seen: all posts up to floor, and the
// posts in posts.
type Streamed struct {
	floor string
	// posts ascend.
	posts []string
	// shown are the newest posts of the home, as read at shownAt. LikeChanges sets shownAt to zero, because later
	// counts need a check of the follows. likes has the like counts that the reader knows.
	shown   []access.Ref
	shownAt time.Time
	likes   map[string]PostLikes
	// behind reports that the last look ended before the end of the home.
	behind bool
}

// PostLikes is the like count of a post. Reactions are all counts by kind of reaction, or nil if only
// likes are configured.
type PostLikes struct {
	PostID    string
	Count     int64
	Reactions map[string]int64
}

// Behind reports whether the last look ended before the end of the home. The next look continues at
// the end of the last look.
func (v *Streamed) Behind() bool { return v.behind }

// Clone returns a copy for another reader, who knows no like counts.
func (v *Streamed) Clone() *Streamed {
	return &Streamed{floor: v.floor, posts: slices.Clone(v.posts), shown: slices.Clone(v.shown), shownAt: v.shownAt, likes: map[string]PostLikes{}, behind: v.behind}
}

// Add adds a post, and reports whether the post is new.
func (v *Streamed) Add(post string) bool {
	i, found := slices.BinarySearch(v.posts, post)
	if found || post <= v.floor {
		return false
	}
	v.posts = slices.Insert(v.posts, i, post)
	if len(v.posts) > windowPosts {
		v.dropFirst()
	}
	return true
}

// Saw reports whether the reader has seen a post.
func (v *Streamed) Saw(post string) bool {
	_, found := slices.BinarySearch(v.posts, post)
	return found || post <= v.floor
}

// KnowLikes adds the like counts that another reader of the same home knows.
func (v *Streamed) KnowLikes(of *Streamed) { maps.Copy(v.likes, of.likes) }

func (v *Streamed) dropFirst() {
	delete(v.likes, v.posts[0])
	v.floor, v.posts = v.posts[0], v.posts[1:]
}

// raise records that the reader has seen all posts up to floor.
func (v *Streamed) raise(floor string) {
	for len(v.posts) > 0 && v.posts[0] <= floor {
		v.dropFirst()
	}
	v.floor = max(v.floor, floor)
}

// Settle removes the old posts from the window. The reader must have seen all visible posts.
func (v *Streamed) Settle(now time.Time) {
	for len(v.posts) > windowLeast && access.TimeOf(v.posts[0]).Before(now.Add(-windowTime)) {
		v.dropFirst()
	}
}

// Position returns v as a cursor of viewer.
func (v *Streamed) Position(viewer string) string {
	raw := id.Pack(v.floor)
	for _, post := range v.posts {
		raw = append(raw, id.Pack(post)...)
	}
	return streamScope(viewer).Cursor(string(raw))
}

func streamScope(viewer string) page.Scope {
	return page.Scope{List: "home-stream", Owner: viewer, Filter: "", Valid: func(position string) bool { _, ok := decodeStreamed(position); return ok }}
}

func decodeStreamed(position string) (*Streamed, bool) {
	if position == "" || len(position)%id.PackedLen != 0 || len(position) > (1+windowPosts)*id.PackedLen {
		return nil, false
	}
	var posts []string
	for raw := range slices.Chunk([]byte(position), id.PackedLen) {
		post := id.Unpack(raw)
		if len(posts) > 0 && post <= posts[len(posts)-1] {
			return nil, false
		}
		posts = append(posts, post)
	}
	return &Streamed{floor: posts[0], posts: posts[1:], likes: map[string]PostLikes{}}, true
}

// HomeStreamed returns the seen part of viewer's home for a reader who continues after last. last is a
// post id, a Position, or "". With "", all posts that are in the home now are seen.
func (h *Homes) HomeStreamed(ctx context.Context, viewer, last string) (*Streamed, error) {
	if last != "" && !id.Valid(last) {
		position, err := streamScope(viewer).Position(last)
		if err != nil {
			return nil, &fault.Error{Kind: fault.Malformed, Detail: "Last-Event-ID is neither a post id nor a position of this stream: connect again without it"}
		}
		seen, _ := decodeStreamed(position)
		return seen, nil
	}
	began := h.access.Now()
	of, err := h.newerThan(ctx, "")
	if err != nil {
		return nil, err
	}
	if last != "" {
		of.High = last + access.Behind
	}
	want := windowPosts
	if last == "" { // one unit reads the window of most homes, because few homes have more young posts
		want = page.MostSmall
	}
	refs, err := h.homeRefs(ctx, viewer, of, want)
	if n := len(refs.Items); want < windowPosts && err == nil && n == want && h.access.Now().Sub(access.TimeOf(refs.Items[n-1].Post)) < windowTime {
		want = windowPosts
		refs, err = h.homeRefs(ctx, viewer, of, want)
	}
	if err != nil {
		return nil, err
	}
	slices.Reverse(refs.Items)
	seen := &Streamed{floor: refs.Cut, likes: map[string]PostLikes{}}
	if len(refs.Items) == want {
		seen.floor, refs.Items = refs.Items[0].Post, refs.Items[1:]
	}
	// The entry of a post may be visible before the post itself.
	young := slices.DeleteFunc(slices.Clone(refs.Items), func(r access.Ref) bool { return h.access.Now().Sub(access.TimeOf(r.Post)) > commitTime })
	posts, err := h.access.Posts(ctx, access.OfHome(viewer), access.PostKeys(young))
	if err != nil {
		return nil, err
	}
	for _, r := range refs.Items {
		if posts.Has(schema.PostKey(r.Author, r.Post)) || !slices.Contains(young, r) {
			seen.posts = append(seen.posts, r.Post)
		}
	}
	seen.show(refs.Items, began)
	seen.Settle(h.access.Now())
	return seen, nil
}

// homeRefs returns the first want references of a span of viewer's home. It returns fewer references
// only at the end of the home, or if the budget ends the read.
func (h *Homes) homeRefs(ctx context.Context, viewer string, of access.Span, want int) (page.Stretch[access.Ref], error) {
	refs, _, err := h.source(viewer, false, of).whole(ctx, page.BudgetAfter(2), "", want)
	return refs, err
}

// show sets the newest posts, whose like counts LikeChanges reads, from the references of a home, oldest first. The read of
// the references began at began.
func (v *Streamed) show(refs []access.Ref, began time.Time) {
	v.shown, v.shownAt = nil, began
	likes := make(map[string]PostLikes, windowLeast)
	for _, r := range slices.Backward(refs[max(0, len(refs)-windowLeast):]) {
		v.shown = append(v.shown, r)
		if count, ok := v.likes[r.Post]; ok {
			likes[r.Post] = count
		}
	}
	v.likes = likes
}

// Arrivals looks at viewer's home once. Arrivals returns the posts that are not in seen, a few at a
// time, oldest first, and adds these posts to seen. A post that becomes visible during the look may
// have to wait for the next look. A look reads lookPosts posts at most, so the work of a look is
// bounded, whatever the number of posts above the window (I11). Each look makes progress: a look sends
// its first part, whatever time that takes. While seen.Behind() is true, posts remain for the next
// look.
func (h *Homes) Arrivals(ctx context.Context, viewer string, seen *Streamed) iter.Seq2[[]feed.HomeItem, error] {
	return func(yield func([]feed.HomeItem, error) bool) {
		seen.behind = true
		began := h.access.Now()
		of, err := h.newerThan(ctx, seen.floor)
		if err != nil {
			yield(nil, err)
			return
		}
		of.Up = true
		refs, err := h.homeRefs(ctx, viewer, of, lookPosts)
		if err != nil {
			yield(nil, err)
			return
		}
		fresh := slices.DeleteFunc(slices.Clone(refs.Items), func(r access.Ref) bool {
			_, found := slices.BinarySearch(seen.posts, r.Post)
			return found
		})
		read, further := h.access.Now(), false
		for part := range slices.Chunk(fresh, h.cfg.StreamPart) {
			now := h.access.Now()
			if further && now.Sub(read) > max(lookTime, read.Sub(began)) {
				return
			}
			items, known, err := h.arrived(ctx, viewer, part, now.Sub(began) > refsAge)
			if err != nil {
				yield(nil, err)
				return
			}
			seen.note(items, known)
			further = further || len(known) > 0
			if len(items) > 0 && !yield(items, nil) {
				return
			}
		}
		seen.show(refs.Items, began)
		seen.looked(refs, h.access.Now())
	}
}

// looked ends a look at refs, which are oldest first. If the look did not reach the end of the home,
// the next look begins at the last windowPosts of refs, or after the hidden posts that used up the
// budget. Without this rule, a look might end at its beginning.
func (v *Streamed) looked(refs page.Stretch[access.Ref], now time.Time) {
	switch n := len(refs.Items); {
	case refs.Cut != "":
		v.raise(refs.Cut)
	case n == lookPosts:
		v.raise(refs.Items[n-windowPosts-1].Post)
	default:
		v.behind = false
		v.Settle(now)
	}
}

// note adds the items that arrived, and further known posts, to v.
func (v *Streamed) note(items []feed.HomeItem, known []string) {
	for _, post := range known {
		v.Add(post)
	}
	for _, item := range items {
		v.likes[item.Post.ID] = PostLikes{item.Post.ID, item.LikeCount, item.Reactions}
	}
}

// arrived returns the items of refs, which are oldest first, and the known posts: posts that are shown
// or deleted. The entry of a post may be visible before the post itself. If old is true, arrived
// checks the references again while it reads their posts.
func (h *Homes) arrived(ctx context.Context, viewer string, refs []access.Ref, old bool) (items []feed.HomeItem, known []string, err error) {
	items, shown, err := h.hydrate(ctx, viewer, refs, old)
	if err != nil {
		return nil, nil, err
	}
	known = postsOf(items)
	var absent []string
	for _, r := range shown {
		if !slices.Contains(known, r.Post) {
			absent = append(absent, r.Post)
		}
	}
	gone, err := h.access.PostRefs(ctx, access.OfHome(viewer), absent)
	if err != nil {
		return nil, nil, err
	}
	for _, seen := range gone {
		byID := seen.Ref()
		// A repost that is visible for long enough, and not shown, has an original that is gone or hidden.
		if byID.Gone(h.access.Now()) || byID.RepostOf != "" && h.access.Now().Sub(access.TimeOf(byID.ID)) > commitTime {
			known = append(known, byID.ID)
		}
	}
	return items, known, nil
}

// hydrate returns the items of refs. If old is true, hydrate leaves out refs of authors whom the viewer
// does not follow any more, or mutes. shown are the other refs.
func (h *Homes) hydrate(ctx context.Context, viewer string, refs []access.Ref, old bool) (items []feed.HomeItem, shown []access.Ref, err error) {
	shown = refs
	reads := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			items, err = h.items.Hydrate(ctx, &page.Budget{}, feed.Viewer{By: access.OfHome(viewer)}, refs, nil)
			return err
		},
	}
	if old {
		reads = append(reads, func(ctx context.Context) (err error) { shown, err = h.stillFollowed(ctx, viewer, refs); return err })
	}
	err = h.access.All(ctx, reads...)
	return slices.DeleteFunc(items, func(item feed.HomeItem) bool {
		return !slices.ContainsFunc(shown, func(r access.Ref) bool { return r.Post == item.Post.ID })
	}), shown, err
}

// Edited returns the items of edited posts that viewer's home shows now.
func (h *Homes) Edited(ctx context.Context, viewer string, refs []access.Ref) ([]feed.HomeItem, error) {
	items, _, err := h.hydrate(ctx, viewer, refs, true)
	return items, err
}

func postsOf(items []feed.HomeItem) []string {
	posts := make([]string, len(items))
	for i, item := range items {
		posts[i] = item.Post.ID
	}
	return posts
}
