package feed

import (
	"context"
	"slices"
)

// refSource lists the references of a span of a home.
type refSource interface {
	// next returns the first want references that follow the post id last ("" for the
	// start), fewer only at the end or if the budget cut the read. Some may be of deleted
	// posts. It passes over hidden ones as long as calls lasts. It also returns the number of
	// table calls that it makes in any case.
	next(ctx context.Context, calls *budget, last string, want int) (refs stretch[ref], again int, err error)
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
		if top, err = mergeLists(ctx, s.all, calls, want, of.compare, func(r ref) string { return r.post }, top, lists); err != nil {
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

// newerThan returns the span of a home behind the post after, "" for all that is still shown.
func (s *Service) newerThan(after string) span {
	if after == "" {
		return span{low: s.oldestShown()}
	}
	return span{low: max(s.oldestShown(), after+behind)}
}
