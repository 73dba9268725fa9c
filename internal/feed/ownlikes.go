package feed

import (
	"context"
	"maps"
	"slices"
	"strings"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// likesForEachPost bounds the query of a viewer's own likes: it reads this many likes for
// each post of the page. They cost a fifth of the page's likes by key.
const likesForEachPost = 3

// ownLikes returns which of the posts viewer likes. It asks the index of likes by user for
// the likes between the page's oldest and newest post. If viewer has liked very many posts
// in that time, it reads the rest of the page by key (docs/decisions/0020). Neither read is
// consistent. The caller has counted one table call.
func (s *Service) ownLikes(ctx context.Context, calls *budget, viewer string, refs []ref) (map[string]bool, error) {
	liked := make(map[string]bool, len(refs))
	if s.cfg.LikesByUser && len(refs) > 1 {
		older := func(a, b ref) int { return strings.Compare(a.post, b.post) }
		q := table.Query{
			Index: true, PK: schema.UserLikesPK(viewer), Descending: true, PageSize: likesForEachPost * len(refs),
			Low: schema.PostSK(slices.MinFunc(refs, older).post), High: schema.PostSK(slices.MaxFunc(refs, older).post),
		}
		rest := "" // the sort key below which likes are left
		for page, err := range s.cfg.Store.Query(ctx, q) {
			if err != nil {
				return nil, unavailable("table", err)
			}
			for _, it := range page.Items {
				like, err := schema.ParseLike(it)
				if err != nil {
					return nil, unavailable("table", err)
				}
				liked[like.Post] = like.Liked
			}
			if n := len(page.Items); page.More && n > 0 {
				rest = page.Items[n-1].Str(table.AttrGSI1SK)
				break
			}
		}
		refs = slices.DeleteFunc(slices.Clone(refs), func(r ref) bool { return schema.PostSK(r.post) >= rest })
		calls.spend(batches(len(refs)))
	}
	found, err := s.batchGet(ctx, likeKeys(viewer, refs), false)
	if err != nil {
		return nil, err
	}
	byKey, err := likedOf(viewer, refs, found)
	maps.Copy(liked, byKey)
	return liked, err
}

func likeKeys(viewer string, refs []ref) []table.Key {
	keys := make([]table.Key, len(refs))
	for i, r := range refs {
		keys[i] = schema.LikeKey(r.post, viewer, r.likeShards)
	}
	return keys
}

// likedOf returns which of the posts viewer likes by the items of likeKeys.
func likedOf(viewer string, refs []ref, found map[table.Key]table.Item) (map[string]bool, error) {
	liked := make(map[string]bool, len(refs))
	for _, r := range refs {
		if it, ok := found[schema.LikeKey(r.post, viewer, r.likeShards)]; ok {
			like, err := schema.ParseLike(it)
			if err != nil {
				return nil, unavailable("table", err)
			}
			liked[r.post] = like.Liked
		}
	}
	return liked, nil
}
