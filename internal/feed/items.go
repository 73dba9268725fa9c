package feed

import (
	"context"
	"maps"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Hydrate turns references into home items and leaves out deleted posts.
//
// Posts are read consistently, so that no post shows after its deletion was answered (I2). Authors,
// counts and the viewer's likes may be older. posts contains the posts if the caller has read them, or
// is nil. Posts to which these posts refer take one more round (refers.go).
func (s *Service) Hydrate(ctx context.Context, calls *page.Budget, viewer Viewer, refs []access.Ref, posts *access.Readables) ([]HomeItem, error) {
	items, err := s.hydrate(ctx, calls, viewer, refs, posts)
	if err != nil {
		return nil, err
	}
	return s.withReferred(ctx, viewer, items, nil)
}

// hydrate is Hydrate without the posts to which the posts refer.
func (s *Service) hydrate(ctx context.Context, calls *page.Budget, viewer Viewer, refs []access.Ref, posts *access.Readables) ([]HomeItem, error) {
	keys := homeKeysOf(refs)
	var found map[table.Key]table.Item
	var own map[string]string
	var kept map[string]Kept
	bylines := s.bylinesFrom()
	authors := authorKeys(keys, func(i int) bool { return refs[i].Post < bylines })
	ifKept := authorKeys(keys, func(i int) bool { return refs[i].Post >= bylines })
	reads := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			found, err = s.access.Recent.Get(ctx, append(countKeys(keys), authors...), ifKept...)
			return err
		},
		func(ctx context.Context) (err error) {
			own, err = s.ownReactions(ctx, calls, viewer.ID(), refs)
			return err
		},
		func(ctx context.Context) (err error) { kept, err = s.keptFor(ctx, calls, viewer, refs); return err },
	}
	if posts == nil {
		posts = &access.Readables{}
		reads = append(reads, func(ctx context.Context) (err error) {
			*posts, err = s.access.Posts(ctx, viewer.By, itemPosts(keys))
			return err
		})
	}
	if err := s.access.All(ctx, reads...); err != nil {
		return nil, err
	}
	bare := authorKeys(keys, func(i int) bool {
		_, known := found[keys[i].author]
		return !known && lacksByline(*posts, keys[i].post) && !slices.Contains(authors, keys[i].author)
	})
	if len(bare) > 0 {
		calls.Spend(access.Batches(len(bare)))
		profiles, err := s.access.Recent.Get(ctx, bare)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, profiles)
	}
	return s.items(itemParts{*posts, found, own, kept, bylines}, refs, keys)
}

// withReferred adds the posts to which items refer, by one more round, and leaves out reposts whose originals are gone
// or hidden from the viewer. Then it leaves out the posts that the viewer's Once remembers, so only a visible repost
// hides another reference to its original. The reads of withReferred do not come out of the calls of the page, because
// a page might end empty with a cursor. read has the posts that the caller has read, or is nil.
func (s *Service) withReferred(ctx context.Context, viewer Viewer, items []HomeItem, read *referred) ([]HomeItem, error) {
	all := make([]Reference, len(items))
	for i := range items {
		all[i] = items[i].Post.Reference
	}
	shown := map[string]*HomeItem{}
	if refs := refsTo(all); len(refs) > 0 {
		if read == nil {
			read = &referred{}
		}
		var found []HomeItem
		err := s.access.All(ctx,
			func(ctx context.Context) (err error) {
				if read.hidden == nil {
					read.hidden, err = s.hiddenAmong(ctx, viewer.ID(), refs)
				}
				return err
			},
			func(ctx context.Context) (err error) {
				found, err = s.hydrate(ctx, &page.Budget{}, viewer.ofReferred(), refs, read.posts)
				return err
			},
		)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if !read.hidden[found[i].Author.ID] {
				shown[found[i].Post.ID] = &found[i]
			}
		}
	}
	kept := items[:0]
	for _, it := range items {
		it.Of = shown[it.Post.Of()]
		if it.Of != nil && it.Post.RepostOf != "" {
			it.Kept = it.Of.Kept
		}
		if (it.Of != nil || it.Post.RepostOf == "") && viewer.Once.Takes(it.Post.ID, it.Post.Reference) {
			kept = append(kept, it)
		}
	}
	return kept, nil
}

// FillUp returns items as Hydrate does, for a page that lacks missing items because posts were
// deleted. The next posts may be deleted, too, so FillUp reads the posts first, and then the counts,
// authors and likes of shown posts only. more reports whether a living post follows the page.
func (s *Service) FillUp(ctx context.Context, viewer Viewer, refs []access.Ref, missing int) (items []HomeItem, more bool, err error) {
	posts, err := s.access.Posts(ctx, viewer.By, access.PostKeys(refs))
	if err != nil {
		return nil, false, err
	}
	living := slices.DeleteFunc(slices.Clone(refs), func(r access.Ref) bool { return !posts.Has(schema.PostKey(r.Author, r.Post)) })
	shown, more, read, err := s.firstShown(ctx, viewer, posts, living, missing)
	if err != nil {
		return nil, false, err
	}
	keys := homeKeysOf(shown)
	bylines := s.bylinesFrom()
	authors := authorKeys(keys, func(i int) bool { return shown[i].Post < bylines || lacksByline(posts, keys[i].post) })
	var found map[table.Key]table.Item
	var kept map[string]Kept
	err = s.access.All(ctx,
		func(ctx context.Context) (err error) {
			all := slices.Concat(countKeys(keys), authors, likeKeys(viewer.ID(), shown))
			found, err = s.access.BatchGet(ctx, all, false, append(s.access.Shown(), schema.LikeAttrs()...)...)
			return err
		},
		func(ctx context.Context) (err error) {
			kept, err = s.keptFor(ctx, &page.Budget{}, viewer, shown)
			return err
		},
	)
	if err != nil {
		return nil, false, err
	}
	own, err := reactionsOf(viewer.ID(), shown, found)
	if err != nil {
		return nil, false, err
	}
	items, err = s.items(itemParts{posts, found, own, kept, bylines}, shown, keys)
	if err != nil {
		return nil, false, err
	}
	viewer.Once = nil // firstShown has left out the repeats
	items, err = s.withReferred(ctx, viewer, items, read)
	return items, more, err
}

// bylinesFrom returns the lowest id of the posts that show their bylines.
func (s *Service) bylinesFrom() string { return id.Floor(s.access.Now().Add(-schema.BylineShown)) }

// homeKeys are the keys of the items of one reference. Each key is made once, because a key consists
// of two new strings.
type homeKeys struct{ post, count, author table.Key }

func homeKeysOf(refs []access.Ref) []homeKeys {
	keys := make([]homeKeys, len(refs))
	for i, r := range refs {
		keys[i] = homeKeys{schema.PostKey(r.Author, r.Post), schema.LikeCountKey(r.Post), schema.ProfileKey(r.Author)} //nolint:forbidigo // the posts are read beside the counts
	}
	return keys
}

// itemPosts returns the keys of the posts.
func itemPosts(of []homeKeys) []table.Key {
	keys := make([]table.Key, len(of))
	for i, k := range of {
		keys[i] = k.post
	}
	return keys
}

// countKeys returns the keys of the like counts, with room for the keys of the authors.
func countKeys(of []homeKeys) []table.Key {
	keys := make([]table.Key, len(of), 2*len(of))
	for i, k := range of {
		keys[i] = k.count
	}
	return keys
}

// authorKeys returns the keys of the profiles of the authors of some of the posts, each key once.
func authorKeys(of []homeKeys, some func(i int) bool) []table.Key {
	var keys []table.Key
	for i, k := range of {
		if some(i) && !slices.Contains(keys, k.author) {
			keys = append(keys, k.author)
		}
	}
	return keys
}

// lacksByline reports whether a post is among posts and has no byline.
func lacksByline(posts access.Readables, post table.Key) bool {
	name, there := posts.Attr(post, schema.AttrBylineName)
	return there && name == ""
}

// itemParts are the reads for home items: posts has the posts, found has their counts and authors, own
// has the viewer's reactions, and kept has the viewer's bookmarks. Posts from the id bylines on show their
// bylines.
type itemParts struct {
	posts   access.Readables
	found   map[table.Key]table.Item
	own     map[string]string
	kept    map[string]Kept
	bylines string
}

// items returns the items of the living posts among refs. keys are the keys of refs. If a post shows
// its byline, items uses the byline, unless found has the same profile or a newer profile.
func (s *Service) items(p itemParts, refs []access.Ref, keys []homeKeys) ([]HomeItem, error) {
	items := make([]HomeItem, 0, len(refs))
	for i, r := range refs {
		read, there, err := p.posts.Of(keys[i].post)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		post := read.Post()
		item := HomeItem{
			Post: postOf(read), Author: HomeAuthor{ID: r.Author}, Liked: p.own[r.Post] == schema.KindLike, CommentCount: max(0, post.Comments), Kept: p.kept[r.Post],
		}
		by := schema.Byline{V: -1}
		if r.Post >= p.bylines && post.Byline.Name != "" {
			by = post.Byline
		}
		if it, ok := p.found[keys[i].author]; ok {
			profile, err := schema.ParseProfile(it)
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			if profile.V >= by.V {
				by.Name, by.ImageURL = profile.Name, profile.ImageURL
			}
		}
		item.Author.Name, item.Author.ImageURL = by.Name, by.ImageURL
		var count schema.LikeCount
		if it, ok := p.found[keys[i].count]; ok {
			count = schema.ParseLikeCount(&it)
		}
		item.LikeCount, item.RepostCount = count.Shown(), count.Reposts()
		if len(s.access.Reactions) > 0 {
			item.Reactions, item.Reaction = s.access.ShownReactions(count), p.own[r.Post]
		}
		items = append(items, item)
	}
	return items, nil
}

// ownReactions returns viewer's reactions to posts, by the index of likes by user, as ownOfPosts does.
// Neither read is consistent. The caller has counted one table call.
func (s *Service) ownReactions(ctx context.Context, calls *page.Budget, viewer string, refs []access.Ref) (map[string]string, error) {
	own := make(map[string]string, len(refs))
	if s.cfg.LikesByUser && len(refs) > 1 {
		likes := table.Query{Index: true, PK: schema.UserLikesPK(viewer)} //nolint:forbidigo // the own likes
		rest, err := s.ownOfPosts(ctx, likes, refs, func(it table.Item) error {
			like, err := schema.ParseLike(it)
			own[like.Post] = like.Kind
			return err
		})
		if err != nil {
			return nil, err
		}
		refs = rest
		calls.Spend(access.Batches(len(refs)))
	}
	found, err := s.access.BatchGet(ctx, likeKeys(viewer, refs), false)
	if err != nil {
		return nil, err
	}
	byKey, err := reactionsOf(viewer, refs, found)
	maps.Copy(own, byKey)
	return own, err
}

func likeKeys(viewer string, refs []access.Ref) []table.Key {
	keys := make([]table.Key, len(refs))
	for i, r := range refs {
		keys[i] = schema.LikeKey(r.Post, viewer, r.LikeShards)
	}
	return keys
}

// reactionsOf returns viewer's reactions to posts by the items of likeKeys.
func reactionsOf(viewer string, refs []access.Ref, found map[table.Key]table.Item) (map[string]string, error) {
	own := make(map[string]string, len(refs))
	for _, r := range refs {
		if it, ok := found[schema.LikeKey(r.Post, viewer, r.LikeShards)]; ok {
			like, err := schema.ParseLike(it)
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			own[r.Post] = like.Kind
		}
	}
	return own, nil
}
