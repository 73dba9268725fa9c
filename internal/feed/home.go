package feed

import (
	"context"
	"errors"
	"maps"
	"slices"

	"fanfare/internal/id"
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

// refSource lists the references of a span of a home.
type refSource interface {
	// next returns the first want references that follow the post id last ("" for the
	// start), fewer only at the end or if the budget cut the read. Some may be of deleted
	// posts. It passes over hidden ones as long as calls lasts. It also returns the number of
	// table calls that it makes in any case.
	next(ctx context.Context, calls *budget, last string, want int) (refs stretch[ref], again int, err error)
}

// Home returns a page of viewer's home: the posts of the followees and of the viewer,
// newest first. By push it takes two round trips to the table, three with a marked author,
// and one more for each further 100 marked authors. It takes more only for authors of posts
// without a byline, to fill up a page from which hidden posts were left out, or to read more
// than a page of marks.
//
// If the page is not full when the budget is used up, it ends at the last reference that
// was looked at.
func (s *Service) Home(ctx context.Context, viewer string, query HomeQuery, in PageRequest) (List[HomeItem], error) {
	page, err := s.home(ctx, viewer, query, in)
	if errors.Is(err, errByPull) {
		page, err = s.home(ctx, viewer, HomeQuery{Pull: true, After: query.After}, in)
	}
	return page, err
}

// home is Home. It fails with errByPull if a home by push lacks entries.
func (s *Service) home(ctx context.Context, viewer string, query HomeQuery, in PageRequest) (List[HomeItem], error) {
	scope := byID("home", viewer, query.After)
	at, gathers, err := homeAt(viewer, query.After, in.Cursor)
	if err != nil {
		return List[HomeItem]{}, err
	}
	before := at.before
	// Kept for the first page: the entries and the marks, then its items.
	calls := budgetAfter(2 + batches(in.limit()) + batches(2*in.limit()) + 1)
	if query.Pull && gathers {
		return s.goOnGathering(ctx, viewer, query, at, in.limit())
	}
	source, followees, err := s.refSource(ctx, viewer, query.Pull, s.newerThan(query.After))
	if err != nil {
		return List[HomeItem]{}, err
	}
	if source == nil {
		return s.gather(ctx, viewer, query, at, followees)
	}
	refs, again, err := source.next(ctx, calls, before, in.limit()+1)
	if err != nil {
		return List[HomeItem]{}, err
	}
	// The next post is not read: it may be deleted, and then the last page is empty.
	looked := refs.items[:min(in.limit(), len(refs.items))]
	items, err := s.hydrate(ctx, calls, viewer, looked)
	if err != nil {
		return List[HomeItem]{}, err
	}
	more, small := false, smallRefill(in.limit(), in.limit()-len(items))
	for want := in.limit() + 1; ; {
		missing := in.limit() - len(items)
		if missing == 0 && (more || len(refs.items) == want) {
			return homePage(items, items[in.limit()-1].Post.ID, scope), nil
		}
		if missing == 0 || refs.cut == "" && len(refs.items) < want {
			return homePage(items, refs.cut, scope), nil
		}
		if before = refs.cut; before == "" {
			before = looked[len(looked)-1].post
		}
		var look int
		var own *budget
		if want, look, own = homeRefill(calls, small, again, missing); own == nil {
			return homePage(items, before, scope), nil
		}
		small = 0
		refs, again, err = source.next(ctx, own, before, want)
		if err != nil {
			return List[HomeItem]{}, err
		}
		looked = refs.items[:min(look, len(refs.items))]
		var shown []HomeItem
		if shown, more, err = s.fillUp(ctx, viewer, looked, missing); err != nil {
			return List[HomeItem]{}, err
		}
		items = append(items, shown...)
	}
}

// homeRefill returns how many references a page that lacks missing items reads next, of how many
// of them it reads the posts, and the budget of the read, nil if calls has not enough left. small is
// the size of a small refill, 0 for none, and again the number of calls that references take.
//
// A small refill takes the calls of merged lists from the budget, and only if that leaves those of a
// large refill. Else a page could end earlier than without it.
func homeRefill(calls *budget, small, again, missing int) (want, look int, own *budget) {
	large := again + 1 + batches(3*missing)
	if small > 0 && calls.takeBefore(again-1, large) {
		return min(small+1, mostSmall), small, &budget{}
	}
	if calls.take(large) {
		return table.MaxBatchGet, table.MaxBatchGet, calls
	}
	return 0, 0, nil
}

// homePage returns a page that goes on after the post last, "" for the last page. It ends
// earlier where the next item does not fit.
func homePage(items []HomeItem, last string, scope scope) List[HomeItem] {
	for i := 1; invariants.Enabled && i < len(items); i++ {
		invariants.Check(items[i].Post.ID < items[i-1].Post.ID, "I7: a page of a home repeats or mixes up posts: %s, %s", items[i-1].Post.ID, items[i].Post.ID)
	}
	if n := fitting(items); n < len(items) {
		items, last = items[:n], items[n-1].Post.ID
	}
	if last == "" {
		return List[HomeItem]{Items: items}
	}
	return List[HomeItem]{Items: items, NextCursor: scope.cursor(last)}
}

// hydrate turns references into home items and leaves out deleted posts.
//
// Posts are read consistently, so that no post shows after its deletion was answered
// (I2). Authors, counts and the viewer's likes are not.
func (s *Service) hydrate(ctx context.Context, calls *budget, viewer string, refs []ref) ([]HomeItem, error) {
	items, _, err := s.hydrateWith(ctx, calls, viewer, refs, nil)
	return items, err
}

// hydrateWith is hydrate for posts that were read already; it reads them if posts is nil. It
// also returns them.
func (s *Service) hydrateWith(ctx context.Context, calls *budget, viewer string, refs []ref, posts map[table.Key]table.Item) ([]HomeItem, map[table.Key]table.Item, error) {
	keys := homeKeysOf(refs)
	var found map[table.Key]table.Item
	var liked map[string]bool
	signed := s.signedFrom()
	authors := authorKeys(keys, func(i int) bool { return refs[i].post < signed })
	ifKept := authorKeys(keys, func(i int) bool { return refs[i].post >= signed })
	reads := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			found, err = s.recent.get(ctx, append(countKeys(keys), authors...), ifKept...)
			return err
		},
		func(ctx context.Context) (err error) { liked, err = s.ownLikes(ctx, calls, viewer, refs); return err },
	}
	if posts == nil {
		reads = append(reads, func(ctx context.Context) (err error) { posts, err = s.posts(ctx, postKeys(keys)); return err })
	}
	if err := s.all(ctx, reads...); err != nil {
		return nil, nil, err
	}
	unsigned := authorKeys(keys, func(i int) bool {
		it, there := posts[keys[i].post]
		_, known := found[keys[i].author]
		return there && !known && isUnsigned(it) && !slices.Contains(authors, keys[i].author)
	})
	if len(unsigned) > 0 {
		calls.spend(batches(len(unsigned)))
		profiles, err := s.recent.get(ctx, unsigned)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(found, profiles)
	}
	items, err := homeItems(refs, keys, posts, found, liked, signed)
	return items, posts, err
}

// fillUp is hydrate for a page that lacks missing items because posts were deleted, so
// more of the next ones may be. It reads the posts first, and the rest only of those to
// show. more reports whether a living post follows them.
func (s *Service) fillUp(ctx context.Context, viewer string, refs []ref, missing int) (items []HomeItem, more bool, err error) {
	posts, err := s.posts(ctx, postKeys(homeKeysOf(refs)))
	if err != nil {
		return nil, false, err
	}
	living := slices.DeleteFunc(slices.Clone(refs), func(r ref) bool {
		_, ok := posts[schema.PostKey(r.author, r.post)]
		return !ok
	})
	shown := living[:min(missing, len(living))]
	keys := homeKeysOf(shown)
	signed := s.signedFrom()
	authors := authorKeys(keys, func(i int) bool { return shown[i].post < signed || isUnsigned(posts[keys[i].post]) })
	found, err := s.batchGet(ctx, slices.Concat(countKeys(keys), authors, likeKeys(viewer, shown)), false)
	if err != nil {
		return nil, false, err
	}
	liked, err := likedOf(viewer, shown, found)
	if err != nil {
		return nil, false, err
	}
	items, err = homeItems(shown, keys, posts, found, liked, signed)
	return items, len(living) > missing, err
}

// signedFrom returns the id from which on posts show their bylines.
func (s *Service) signedFrom() string { return id.Floor(s.cfg.Now().Add(-schema.BylineShown)) }

// homeKeys are the keys of the items of one ref. Each is made once: it is two strings.
type homeKeys struct{ post, count, author table.Key }

func homeKeysOf(refs []ref) []homeKeys {
	keys := make([]homeKeys, len(refs))
	for i, r := range refs {
		keys[i] = homeKeys{schema.PostKey(r.author, r.post), schema.LikeCountKey(r.post), schema.ProfileKey(r.author)}
	}
	return keys
}

func postKeys(of []homeKeys) []table.Key {
	keys := make([]table.Key, len(of))
	for i, k := range of {
		keys[i] = k.post
	}
	return keys
}

// countKeys returns the keys of the like counts, with room for those of the authors.
func countKeys(of []homeKeys) []table.Key {
	keys := make([]table.Key, len(of), 2*len(of))
	for i, k := range of {
		keys[i] = k.count
	}
	return keys
}

// authorKeys returns the profiles of the authors of some of the posts, each once.
func authorKeys(of []homeKeys, some func(i int) bool) []table.Key {
	var keys []table.Key
	for i, k := range of {
		if some(i) && !slices.Contains(keys, k.author) {
			keys = append(keys, k.author)
		}
	}
	return keys
}

// isUnsigned reports whether a post has no byline to show.
func isUnsigned(post table.Item) bool { return post.Str(schema.AttrBylineName) == "" }

// homeItems returns the items of the living posts among refs, whose keys are keys. Of a post
// with the id signed or above it takes the byline, unless found has the same profile or a newer
// one.
func homeItems(refs []ref, keys []homeKeys, posts, found map[table.Key]table.Item, liked map[string]bool, signed string) ([]HomeItem, error) {
	items := make([]HomeItem, 0, len(refs))
	for i, r := range refs {
		it, ok := posts[keys[i].post]
		if !ok {
			continue
		}
		p, err := schema.ParsePost(it)
		if err != nil {
			return nil, unavailable("table", err)
		}
		item := HomeItem{Post: postOf(p), Author: HomeAuthor{ID: r.author}, Liked: liked[r.post]}
		by := schema.Byline{V: -1}
		if r.post >= signed && p.Byline.Name != "" {
			by = p.Byline
		}
		if it, ok := found[keys[i].author]; ok {
			profile, err := schema.ParseProfile(it)
			if err != nil {
				return nil, unavailable("table", err)
			}
			if profile.V >= by.V {
				by.Name, by.ImageURL = profile.Name, profile.ImageURL
			}
		}
		item.Author.Name, item.Author.ImageURL = by.Name, by.ImageURL
		if it, ok := found[keys[i].count]; ok {
			item.LikeCount = schema.ParseLikeCount(&it).Shown()
		}
		items = append(items, item)
	}
	return items, nil
}

// followee is an author whose own post list a home reads, with the lowest post id
// that the home shows of it, "" for all.
type followee struct {
	author, from string
	// pulled says that all homes of the author's followers read this list.
	pulled bool
	// muted says that the home shows nothing of it.
	muted bool
}

// heard returns the followees that are not muted.
func heard(followees []followee) []followee {
	return slices.DeleteFunc(slices.Clone(followees), func(f followee) bool { return f.muted })
}

// mergedPosts merges the followees' first posts of a span into top and returns it, want references
// at most. Once top is full, or the budget has cut it, it reads only the posts that come before
// the end of top. It reads 100 lists at a time, so its memory does not grow with the followees
// (I9).
func (s *Service) mergedPosts(ctx context.Context, calls *budget, followees []followee, of span, want int, top stretch[ref]) (stretch[ref], error) {
	begins := of.high == ""
	for part := range slices.Chunk(followees, homeReaders) {
		of = of.upTo(top.cut)
		if len(top.items) == want {
			of = of.upTo(top.items[want-1].post)
		}
		lists := make([]mergedList[ref], len(part))
		for i, f := range part {
			own := of.from(f.from)
			lists[i] = func(ctx context.Context, last string, want, size int) (stretch[ref], error) {
				if f.pulled && s.cfg.HeadAge > 0 && begins && last == "" {
					return s.headOf(ctx, f.author, own, want, size)
				}
				return s.postsBy(ctx, &budget{}, f.author, own.after(last), want, size)
			}
		}
		var err error
		if top, err = mergeLists(ctx, s, calls, want, of.compare, func(r ref) string { return r.post }, top, lists); err != nil {
			return stretch[ref]{}, err
		}
	}
	return top, nil
}

// headOf is postsBy for a span without an upper bound, whose newest posts are shared.
func (s *Service) headOf(ctx context.Context, author string, of span, want, size int) (stretch[ref], error) {
	if !of.up {
		return s.heads.get(ctx, author, of.low, want)
	}
	head, err := s.heads.get(ctx, author, of.low, MaxLimit)
	if err == nil && (head.cut != "" || len(head.items) == MaxLimit) { // the oldest posts may be below it
		return s.postsBy(ctx, &budget{}, author, of, want, size)
	}
	slices.Reverse(head.items)
	return head, err
}

// postsBy returns references to author's first want posts of a span. It returns fewer
// if there are no more, or if the budget cut the read. The first page reads size posts.
func (s *Service) postsBy(ctx context.Context, calls *budget, author string, of span, want, size int) (stretch[ref], error) {
	if of.empty() {
		return stretch[ref]{}, nil
	}
	q := of.query(schema.PostsPK(author))
	q.PageSize, q.Project = size, []string{schema.AttrLikeShards}
	return collect(ctx, s.cfg.Store, q, want, refill{budget: calls, calls: 1}, each(func(it table.Item) (ref, bool, error) {
		p, err := schema.ParsePost(it)
		return ref{p.ID, author, p.LikeShards}, true, err
	}))
}
