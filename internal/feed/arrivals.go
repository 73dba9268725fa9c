package feed

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Posts come into a home in any order: a fan-out takes its time, and clocks differ. So a
// live home cannot go on after the newest id that it sent. It remembers the posts in a
// window, and looks through the window each time (docs/decisions/0023).
const (
	// windowPosts is the most posts that a window holds, and windowLeast the number of the
	// newest ones that it holds at any age.
	windowPosts = 100
	windowLeast = DefaultLimit
	// windowTime is longer than clocks differ and fan-outs take.
	windowTime = 10 * time.Minute
	// lookPosts is the number of posts that a look reads, those of the window included. It
	// bounds a look (I11), and is above windowPosts, so that each look gets further.
	lookPosts = windowPosts + 1000
	// refsAge is the age from which references are checked again before their posts are sent:
	// a follow may have ended since (I2).
	refsAge = time.Second
	// lookTime is how long a look sends posts, if it did not read their references for longer.
	// A slow table makes the next look read them again, and those that came meanwhile.
	lookTime = 10 * time.Second
	// commitTime is longer than the items of one transaction take to become visible.
	commitTime = 10 * time.Second
)

// Streamed is the part of a home that a reader has seen: all posts up to floor, and posts.
type Streamed struct {
	floor string
	// posts ascend.
	posts []string
	// shown are the newest posts of the home, and likes their counts as far as the reader
	// knows them.
	shown []string
	likes map[string]int64
	// behind says that posts above those of the last look are left.
	behind bool
}

// Behind reports whether the last look ended before the end of the home. The next look
// continues there.
func (v *Streamed) Behind() bool { return v.behind }

// Clone returns a copy for another reader, who knows no like counts.
func (v *Streamed) Clone() *Streamed {
	return &Streamed{floor: v.floor, posts: slices.Clone(v.posts), shown: slices.Clone(v.shown), likes: map[string]int64{}, behind: v.behind}
}

// Add adds a post, and reports whether it is new.
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

func (v *Streamed) dropFirst() {
	delete(v.likes, v.posts[0])
	v.floor, v.posts = v.posts[0], v.posts[1:]
}

// raise counts all posts up to floor as seen.
func (v *Streamed) raise(floor string) {
	for len(v.posts) > 0 && v.posts[0] <= floor {
		v.dropFirst()
	}
	v.floor = max(v.floor, floor)
}

// Settle forgets the old posts of the window. Everything that is visible has been seen.
func (v *Streamed) Settle(now time.Time) {
	for len(v.posts) > windowLeast && timeOf(v.posts[0]).Before(now.Add(-windowTime)) {
		v.dropFirst()
	}
}

// Position returns v as a cursor for viewer.
func (v *Streamed) Position(viewer string) string {
	raw := id.Pack(v.floor)
	for _, post := range v.posts {
		raw = append(raw, id.Pack(post)...)
	}
	return streamScope(viewer).cursor(string(raw))
}

func streamScope(viewer string) scope {
	return scope{"home-stream", viewer, "", func(position string) bool { _, ok := decodeStreamed(position); return ok }}
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
	return &Streamed{floor: posts[0], posts: posts[1:], likes: map[string]int64{}}, true
}

// HomeStreamed returns the part of viewer's home that a reader has seen who goes on after last:
// a post id, a Position, or "" for all that is in the home now.
func (s *Service) HomeStreamed(ctx context.Context, viewer, last string) (*Streamed, error) {
	if last != "" && !id.Valid(last) {
		position, err := streamScope(viewer).position(last)
		if err != nil {
			return nil, &Error{Kind: Malformed, Detail: "Last-Event-ID is neither a post id nor a position of this stream: connect again without it"}
		}
		seen, _ := decodeStreamed(position)
		return seen, nil
	}
	of := span{low: s.oldestShown()}
	if last != "" {
		of.high = last + behind
	}
	refs, err := s.homeRefs(ctx, viewer, of, windowPosts)
	if err != nil {
		return nil, err
	}
	slices.Reverse(refs.items)
	seen := &Streamed{floor: refs.cut, likes: map[string]int64{}}
	if len(refs.items) == windowPosts {
		seen.floor, refs.items = refs.items[0].post, refs.items[1:]
	}
	// The entry of a post may be visible before the post is.
	young := slices.DeleteFunc(slices.Clone(refs.items), func(r ref) bool { return s.cfg.Now().Sub(timeOf(r.post)) > commitTime })
	posts, err := s.posts(ctx, postKeys(homeKeysOf(young)))
	if err != nil {
		return nil, err
	}
	for _, r := range refs.items {
		if _, ok := posts[schema.PostKey(r.author, r.post)]; ok || !slices.Contains(young, r) {
			seen.posts = append(seen.posts, r.post)
		}
	}
	seen.show(refs.items)
	seen.Settle(s.cfg.Now())
	return seen, nil
}

// homeRefs returns the first want references of a span of viewer's home, fewer only at the end
// or if the budget cut the read.
func (s *Service) homeRefs(ctx context.Context, viewer string, of span, want int) (stretch[ref], error) {
	calls := budgetAfter(2)
	source, _, err := s.refSource(ctx, viewer, false, of)
	if err != nil {
		return stretch[ref]{}, err
	}
	refs, _, err := source.next(ctx, calls, "", want)
	if !errors.Is(err, errByPull) {
		return refs, err
	}
	// The reader returns, and its entries are not all there.
	if source, _, err = s.refSource(ctx, viewer, true, of); err != nil {
		return stretch[ref]{}, err
	}
	if source == nil { // a home by pull that has to be gathered
		return stretch[ref]{}, unavailable("home", errByPull)
	}
	refs, _, err = source.next(ctx, calls, "", want)
	return refs, err
}

// show takes the references of a home, oldest first, of which like counts are to be read.
func (v *Streamed) show(refs []ref) {
	v.shown = nil
	likes := make(map[string]int64, windowLeast)
	for _, r := range slices.Backward(refs[max(0, len(refs)-windowLeast):]) {
		v.shown = append(v.shown, r.post)
		if count, ok := v.likes[r.post]; ok {
			likes[r.post] = count
		}
	}
	v.likes = likes
}

// Arrivals looks once at viewer's home: it returns the posts that are not in seen, a few at a
// time, oldest first, and adds them to seen. A post that becomes visible meanwhile may be left
// for the next look. A look reads lookPosts posts at most, so its work is bounded however much
// is above the window (I11), and each look gets further: it sends its first part whatever time
// that takes. While seen.Behind, more is left for the next look.
func (s *Service) Arrivals(ctx context.Context, viewer string, seen *Streamed) iter.Seq2[[]HomeItem, error] {
	return func(yield func([]HomeItem, error) bool) {
		seen.behind = true
		began := s.cfg.Now()
		of := s.newerThan(seen.floor)
		of.up = true
		refs, err := s.homeRefs(ctx, viewer, of, lookPosts)
		if err != nil {
			yield(nil, err)
			return
		}
		fresh := slices.DeleteFunc(slices.Clone(refs.items), func(r ref) bool {
			_, found := slices.BinarySearch(seen.posts, r.post)
			return found
		})
		read, further := s.cfg.Now(), false
		for part := range slices.Chunk(fresh, s.cfg.StreamPart) {
			now := s.cfg.Now()
			if further && now.Sub(read) > max(lookTime, read.Sub(began)) {
				return
			}
			items, known, err := s.arrived(ctx, viewer, part, now.Sub(began) > refsAge)
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
		seen.looked(refs, s.cfg.Now())
	}
}

// looked ends a look at refs, which are oldest first. If it did not reach the end of the home,
// the next look begins at the last windowPosts of them, or behind the hidden posts that used up
// the budget: else a look might end where it began.
func (v *Streamed) looked(refs stretch[ref], now time.Time) {
	v.show(refs.items)
	switch n := len(refs.items); {
	case refs.cut != "":
		v.raise(refs.cut)
	case n == lookPosts:
		v.raise(refs.items[n-windowPosts-1].post)
	default:
		v.behind = false
		v.Settle(now)
	}
}

// note adds the items that arrived, and the other posts that are known.
func (v *Streamed) note(items []HomeItem, known []string) {
	for _, post := range known {
		v.Add(post)
	}
	for _, item := range items {
		v.likes[item.Post.ID] = item.LikeCount
	}
}

// arrived returns the items of refs, which are oldest first, and the posts that are known by
// that: shown or deleted. The entry of a post may be visible before the post is. If the
// references are old, they are checked while their posts are read.
func (s *Service) arrived(ctx context.Context, viewer string, refs []ref, old bool) (items []HomeItem, known []string, err error) {
	shown := refs
	reads := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			items, err = s.hydrate(ctx, &budget{}, viewer, refs)
			return err
		},
	}
	if old {
		reads = append(reads, func(ctx context.Context) (err error) { shown, err = s.stillFollowed(ctx, viewer, refs); return err })
	}
	if err := s.all(ctx, reads...); err != nil {
		return nil, nil, err
	}
	items = slices.DeleteFunc(items, func(item HomeItem) bool {
		return !slices.ContainsFunc(shown, func(r ref) bool { return r.post == item.Post.ID })
	})
	known = postsOf(items)
	var keys []table.Key
	for _, r := range shown {
		if !slices.Contains(known, r.post) {
			keys = append(keys, schema.PostByIDKey(r.post))
		}
	}
	gone, err := s.refs(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	for _, it := range gone {
		byID, err := schema.ParsePostRef(it)
		if err != nil {
			return nil, nil, unavailable("table", err)
		}
		if byID.Deleted {
			known = append(known, byID.ID)
		}
	}
	return items, known, nil
}

func postsOf(items []HomeItem) []string {
	posts := make([]string, len(items))
	for i, item := range items {
		posts[i] = item.Post.ID
	}
	return posts
}

// PostLikes is the like count of a post.
type PostLikes struct {
	PostID string
	Count  int64
}

// LikeChanges returns the like counts of the newest posts of a home that differ from those
// that seen knows, and notes them. Counts that it does not know differ from 0.
func (s *Service) LikeChanges(ctx context.Context, seen *Streamed) ([]PostLikes, error) {
	keys := make([]table.Key, len(seen.shown))
	for i, post := range seen.shown {
		keys[i] = schema.LikeCountKey(post)
	}
	found, err := s.recent.get(ctx, keys)
	if err != nil {
		return nil, err
	}
	var changes []PostLikes
	var changed []table.Key
	for _, post := range seen.shown {
		count := int64(0)
		if it, ok := found[schema.LikeCountKey(post)]; ok {
			count = schema.ParseLikeCount(&it).Shown()
		}
		if count != seen.likes[post] {
			changes = append(changes, PostLikes{post, count})
			changed = append(changed, schema.PostByIDKey(post))
		}
	}
	living, err := s.refs(ctx, changed)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(changes, func(c PostLikes) bool {
		it, ok := living[schema.PostByIDKey(c.PostID)]
		if !ok || it.Int(schema.AttrDeleted) != 0 {
			return true
		}
		seen.likes[c.PostID] = c.Count
		return false
	}), nil
}
