package feed

import (
	"context"
	"slices"
	"strings"

	"fanfare/internal/invariants"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// ref is a reference to a post. A home collects refs before it reads any post, so
// that many post lists fit in memory.
type ref struct {
	post, author string
	likeShards   int
}

func newestFirst(a, b ref) int { return strings.Compare(b.post, a.post) }

// refSource lists the references of a home, newest first.
type refSource interface {
	// next returns the first want references below the post id before ("" for the
	// start), fewer only at the end. Some may be of deleted posts.
	next(ctx context.Context, before string, want int) ([]ref, error)
}

// Home returns a page of viewer's home: the posts of the followees and of the viewer,
// newest first. It takes two round trips to the table, three with a marked author,
// and one more for each further 20 marked authors. It takes more only to fill up a
// page from which hidden posts were left out, or to read more than a page of marks.
func (s *Service) Home(ctx context.Context, viewer string, query HomeQuery, in PageRequest) (List[HomeItem], error) {
	scope := byID("home", viewer, "")
	before, err := scope.position(in.Cursor)
	if err != nil {
		return List[HomeItem]{}, err
	}
	var source refSource = &pushSource{s: s, viewer: viewer, oldest: s.oldestShown()}
	if query.Pull {
		source = &pullSource{s: s, viewer: viewer, oldest: s.oldestShown()}
	}
	var items []HomeItem
	for size := in.limit(); ; size = MaxLimit { // large steps, once a page has to be filled up
		refs, err := source.next(ctx, before, size+1)
		if err != nil {
			return List[HomeItem]{}, err
		}
		shown, more, err := s.hydrate(ctx, viewer, refs, size)
		if err != nil {
			return List[HomeItem]{}, err
		}
		items = append(items, shown...)
		if more && len(items) == in.limit() {
			return cutHome(items, in.limit(), true, scope), nil
		}
		if len(items) > in.limit() || len(refs) <= size {
			return cutHome(items, in.limit(), len(items) > in.limit(), scope), nil
		}
		before = refs[size-1].post
	}
}

func cutHome(items []HomeItem, limit int, more bool, scope scope) List[HomeItem] {
	items = items[:min(limit, len(items))]
	for i := 1; invariants.Enabled && i < len(items); i++ {
		invariants.Check(items[i].Post.ID < items[i-1].Post.ID, "I7: a page of a home repeats or mixes up posts: %s, %s", items[i-1].Post.ID, items[i].Post.ID)
	}
	if !more {
		return List[HomeItem]{Items: items}
	}
	return List[HomeItem]{Items: items, NextCursor: scope.cursor(items[len(items)-1].Post.ID)}
}

// hydrate turns the first size references into home items and leaves out deleted
// posts. more reports whether a reference follows them and its post lives.
//
// Posts are read consistently, so that no post shows after its deletion was answered
// (I2). Authors, counts and the viewer's likes are not.
func (s *Service) hydrate(ctx context.Context, viewer string, refs []ref, size int) (items []HomeItem, more bool, err error) {
	shown, rest := refs[:min(size, len(refs))], refs[min(size, len(refs)):]
	posts := make([]table.Key, 0, len(refs))
	others := make([]table.Key, 0, 3*len(shown))
	authors := make(map[string]bool, len(shown))
	for _, r := range shown {
		posts = append(posts, schema.PostKey(r.author, r.post))
		others = append(others, schema.LikeCountKey(r.post), schema.LikeKey(r.post, viewer, r.likeShards))
		if !authors[r.author] {
			authors[r.author] = true
			others = append(others, schema.ProfileKey(r.author))
		}
	}
	// A page may read four keys for each item, and for DefaultLimit items at least. If
	// each item has an author of its own, no key is left to check the next post. Then
	// its reference is trusted, and a cursor may lead to an empty page if that post was
	// deleted.
	check := len(rest) > 0 && len(posts)+len(others) < 4*max(size, DefaultLimit)
	if check {
		posts = append(posts, schema.PostKey(rest[0].author, rest[0].post))
	}
	var foundPosts, found map[table.Key]table.Item
	err = all(ctx,
		func(ctx context.Context) (err error) { foundPosts, err = s.posts.get(ctx, posts); return err },
		func(ctx context.Context) (err error) { found, err = s.batchGet(ctx, others, false); return err },
	)
	if err != nil {
		return nil, false, err
	}
	for _, r := range shown {
		it, ok := foundPosts[schema.PostKey(r.author, r.post)]
		if !ok {
			continue
		}
		item, living, err := homeItem(viewer, r, it, found)
		if err != nil {
			return nil, false, unavailable("table", err)
		}
		if living {
			items = append(items, item)
		}
	}
	if len(rest) > 0 {
		it, ok := foundPosts[schema.PostKey(rest[0].author, rest[0].post)]
		more = !check || (ok && it.Int(schema.AttrDeleted) == 0)
	}
	return items, more, nil
}

func homeItem(viewer string, r ref, it table.Item, found map[table.Key]table.Item) (item HomeItem, living bool, err error) {
	p, err := schema.ParsePost(it)
	if err != nil || p.Deleted {
		return HomeItem{}, false, err
	}
	item = HomeItem{Post: postOf(p), Author: HomeAuthor{ID: r.author}}
	if it, ok := found[schema.ProfileKey(r.author)]; ok {
		profile, err := schema.ParseProfile(it)
		if err != nil {
			return HomeItem{}, false, err
		}
		item.Author.Name, item.Author.ImageURL = profile.Name, profile.ImageURL
	}
	if it, ok := found[schema.LikeCountKey(r.post)]; ok {
		item.LikeCount = schema.ParseLikeCount(&it).Likes
	}
	if it, ok := found[schema.LikeKey(r.post, viewer, r.likeShards)]; ok {
		like, err := schema.ParseLike(it)
		if err != nil {
			return HomeItem{}, false, err
		}
		item.Liked = like.Liked
	}
	return item, true, nil
}

// followee is an author whose own post list a home reads, with the lowest post id
// that the home shows of it, "" for all.
type followee struct{ author, from string }

// newestOf merges the followees' newest posts below before into top and returns it,
// want references at most. It reads each list to its end or to want living posts, as
// merge requires. Once top is full, it reads only posts above the last one of top. It
// reads 20 lists at a time, so its memory does not grow with the followees (I9).
func (s *Service) newestOf(ctx context.Context, followees []followee, oldest, before string, want int, top []ref) ([]ref, error) {
	for part := range slices.Chunk(followees, readers) {
		if len(top) == want {
			oldest = max(oldest, top[want-1].post)
		}
		lists := make([][]ref, len(part), len(part)+1)
		reads := make([]func(context.Context) error, len(part))
		for i, f := range part {
			reads[i] = func(ctx context.Context) (err error) {
				lists[i], err = s.recentPosts(ctx, f.author, max(oldest, f.from), before, want)
				return err
			}
		}
		if err := all(ctx, reads...); err != nil {
			return nil, err
		}
		top = merge(want, newestFirst, append(lists, top)...)
	}
	return top, nil
}

// recentPosts returns references to author's want newest living posts whose ids are
// oldest or above, and below before ("" for no bound). It returns fewer if there are
// no more.
func (s *Service) recentPosts(ctx context.Context, author, oldest, before string, want int) ([]ref, error) {
	q := table.Query{
		PK: schema.PostsPK(author), Low: schema.PostSK(oldest), Descending: true, PageSize: want,
		Consistent: true, Project: []string{schema.AttrDeleted, schema.AttrLikeShards},
	}
	if before != "" {
		if before <= oldest {
			return nil, nil
		}
		q.After = schema.PostSK(before)
	}
	refs, _, err := collect(s.cfg.Store.Query(ctx, q), want, each(func(it table.Item) (ref, bool, error) {
		p, err := schema.ParsePost(it)
		return ref{p.ID, author, p.LikeShards}, !p.Deleted, err
	}))
	return refs, err
}

// pullSource computes a home from the post lists of the followees and of the viewer.
type pullSource struct {
	s              *Service
	viewer, oldest string
}

// followeesPage is the number of followees that are read at a time.
const followeesPage = 10 * readers

func (p *pullSource) next(ctx context.Context, before string, want int) ([]ref, error) {
	var top []ref
	followees := []followee{{author: p.viewer}}
	q := table.Query{PK: schema.FollowingPK(p.viewer), PageSize: followeesPage, Consistent: true}
	for page, err := range p.s.cfg.Store.Query(ctx, q) {
		if err != nil {
			return nil, unavailable("table", err)
		}
		for _, it := range page.Items {
			edge, err := schema.ParseEdge(it)
			if err != nil {
				return nil, unavailable("table", err)
			}
			followees = append(followees, followee{edge.Other, edge.From})
		}
		if top, err = p.s.newestOf(ctx, followees, p.oldest, before, want, top); err != nil {
			return nil, err
		}
		followees = followees[:0]
	}
	return p.s.newestOf(ctx, followees, p.oldest, before, want, top)
}
