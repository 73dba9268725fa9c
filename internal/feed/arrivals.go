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
	// mostArrivals is the number of references above the window that are held at a time.
	mostArrivals = 1000
	// refsAge is how old the references of posts may be that are read: a follow may have
	// ended since (I2).
	refsAge = time.Second
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
}

// Clone returns a copy for another reader, who knows no like counts.
func (v *Streamed) Clone() *Streamed {
	return &Streamed{floor: v.floor, posts: slices.Clone(v.posts), shown: slices.Clone(v.shown), likes: map[string]int64{}}
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

func (v *Streamed) dropFirst() { v.floor, v.posts = v.posts[0], v.posts[1:] }

// raise counts all posts up to floor as seen.
func (v *Streamed) raise(floor string) {
	v.floor = max(v.floor, floor)
	for len(v.posts) > 0 && v.posts[0] <= v.floor {
		v.posts = v.posts[1:]
	}
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
	before := ""
	if last != "" {
		before = last + behind
	}
	refs, whole, err := s.refsAbove(ctx, viewer, "", before, windowPosts)
	if err != nil {
		return nil, err
	}
	seen := &Streamed{likes: map[string]int64{}}
	if !whole {
		seen.floor, refs = refs[len(refs)-1].post, refs[:len(refs)-1]
	}
	// The entry of a post may be visible before the post is.
	young := slices.DeleteFunc(slices.Clone(refs), func(r ref) bool { return s.cfg.Now().Sub(timeOf(r.post)) > commitTime })
	posts, err := s.posts(ctx, postKeys(homeKeysOf(young)))
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(refs) {
		if _, ok := posts[schema.PostKey(r.author, r.post)]; ok || !slices.Contains(young, r) {
			seen.posts = append(seen.posts, r.post)
		}
	}
	seen.show(refs)
	seen.Settle(s.cfg.Now())
	return seen, nil
}

// show takes the references of a home, newest first, of which like counts are to be read.
func (v *Streamed) show(refs []ref) {
	v.shown = nil
	likes := make(map[string]int64, windowLeast)
	for _, r := range refs[:min(windowLeast, len(refs))] {
		v.shown = append(v.shown, r.post)
		if count, ok := v.likes[r.post]; ok {
			likes[r.post] = count
		}
	}
	v.likes = likes
}

// Arrivals returns the posts of viewer's home that are not in seen, a few at a time, oldest
// first, and adds them to seen. A post that becomes visible meanwhile may be left for the
// next call.
func (s *Service) Arrivals(ctx context.Context, viewer string, seen *Streamed) iter.Seq2[[]HomeItem, error] {
	return func(yield func([]HomeItem, error) bool) {
		for {
			began := s.cfg.Now()
			refs, last, err := s.stretchAbove(ctx, viewer, seen.floor)
			if err != nil {
				yield(nil, err)
				return
			}
			var fresh []ref
			for _, r := range slices.Backward(refs) {
				if _, found := slices.BinarySearch(seen.posts, r.post); !found {
					fresh = append(fresh, r)
				}
			}
			for len(fresh) > 0 && s.cfg.Now().Sub(began) <= refsAge {
				part := fresh[:min(DefaultLimit, len(fresh))]
				items, known, err := s.arrived(ctx, viewer, part)
				if err != nil {
					yield(nil, err)
					return
				}
				seen.note(items, known)
				if fresh = fresh[len(part):]; len(items) > 0 && !yield(items, nil) {
					return
				}
			}
			switch {
			case len(fresh) > 0: // look again
			case last != "":
				seen.raise(last)
			default:
				seen.show(refs)
				seen.Settle(s.cfg.Now())
				return
			}
		}
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
// that: shown or deleted. The entry of a post may be visible before the post is.
func (s *Service) arrived(ctx context.Context, viewer string, refs []ref) (items []HomeItem, known []string, err error) {
	items, err = s.hydrate(ctx, &budget{}, viewer, refs)
	if err != nil || len(items) == len(refs) {
		return items, postsOf(items), err
	}
	known = postsOf(items)
	var keys []table.Key
	for _, r := range refs {
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

// stretchAbove returns the references of viewer's home above floor, newest first. If they
// are too many to hold, it returns those up to last.
func (s *Service) stretchAbove(ctx context.Context, viewer, floor string) (refs []ref, last string, err error) {
	before := ""
	for most := mostArrivals; ; {
		refs, whole, err := s.refsAbove(ctx, viewer, floor, before, most)
		if err != nil || whole {
			return refs, last, err
		}
		// The older half of the time that they leave.
		low, high := timeOf(max(floor, s.oldestShown())), timeOf(refs[len(refs)-1].post)
		half := lastBefore(low.Add(high.Sub(low) / 2))
		if half <= floor {
			most *= 2 // so many posts in one millisecond
			continue
		}
		last, before = half, half+behind
	}
}

// lastBefore returns the highest id that is made before t.
func lastBefore(t time.Time) string {
	const timeChars = 10
	return id.Floor(t.Add(-time.Millisecond))[:timeChars] + id.Max[timeChars:]
}

// refsAbove returns the references of viewer's home above the post id after and below
// before ("" for no bound), newest first: all of them, or at least most.
func (s *Service) refsAbove(ctx context.Context, viewer, after, before string, most int) (refs []ref, whole bool, err error) {
	var source refSource
	var calls *budget
	for query := (HomeQuery{After: after}); len(refs) < most; {
		if source == nil {
			calls = budgetAfter(2)
			source, _, err = s.refSource(ctx, viewer, query)
			if err == nil && source == nil { // a home by pull that has to be gathered
				err = unavailable("home", errByPull)
			}
			if err != nil {
				return nil, false, err
			}
		}
		page, _, err := source.next(ctx, calls, before, windowPosts)
		if errors.Is(err, errByPull) { // the reader returns, and its entries are not all there
			query.Pull, source = true, nil
			continue
		}
		if err != nil {
			return nil, false, err
		}
		refs = append(refs, page.items...)
		switch {
		case len(page.items) == windowPosts:
			before = page.items[windowPosts-1].post
		case page.cut != "": // the budget is used up, and the next stretch gets its own
			before, source = page.cut, nil
		default:
			return refs, true, nil
		}
	}
	return refs, false, nil
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
