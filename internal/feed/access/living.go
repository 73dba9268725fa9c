package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// PostOfAnyAudience reads a post's author and state by the post's id, for a read that asks for no user. The read is
// consistent, because it must find each post whose creation was answered, and no post whose deletion was answered (I2).
func (a *Access) PostOfAnyAudience(ctx context.Context, why Reason, post string) (schema.PostRef, error) {
	seen, err := a.post(ctx, AnyAudience(why), post)
	return seen.ref, err
}

// post reads a post by id.
func (a *Access) post(ctx context.Context, by Viewer, post string) (Seen, error) {
	found, err := a.PostRefs(ctx, by, []string{post})
	if err != nil {
		return Seen{}, err
	}
	seen, ok := found[post]
	if !ok {
		return Seen{}, fault.NotFoundf("there is no post %s", post)
	}
	return seen, nil
}

// LivingPost returns a post by id, and NotFound for a post that does not exist. For a post that was deleted or has ended,
// LivingPost returns both the post and NotFound. The read is consistent, like that of PostOfAnyAudience.
func (a *Access) LivingPost(ctx context.Context, by Viewer, post string) (Seen, error) {
	seen, err := a.post(ctx, by, post)
	if err == nil && seen.ref.Gone(a.Now()) {
		return seen, fault.NotFoundf("post %s %s", post, WhyGone(seen.ref))
	}
	return seen, err
}

// WhyGone returns the reason why a post is gone.
func WhyGone(post schema.PostRef) string {
	if post.Deleted {
		return "was deleted"
	}
	return "ended at " + post.End.Format(time.RFC3339)
}

// LivingPosts returns the posts that exist and are not gone, by id.
func (a *Access) LivingPosts(ctx context.Context, by Viewer, posts []string) (map[string]Seen, error) {
	distinct := make([]string, 0, len(posts))
	for _, post := range posts {
		if !slices.Contains(distinct, post) {
			distinct = append(distinct, post)
		}
	}
	found, err := a.PostRefs(ctx, by, distinct)
	maps.DeleteFunc(found, func(_ string, seen Seen) bool { return seen.ref.Gone(a.Now()) })
	return found, err
}

// WriterAndPost returns a post, which is no repost, for a write about the post, and an id above all ids of the user's
// former lives. The id of the write must be above that id. The user must have a profile, and the post
// must not be deleted.
func (a *Access) WriterAndPost(ctx context.Context, by Viewer, user, post string) (after string, byID schema.PostRef, err error) {
	var missing, gone error
	err = a.All(ctx,
		func(ctx context.Context) error {
			after, missing = a.profileAfter(ctx, user, fault.NoProfile)
			return Failure(missing)
		},
		func(ctx context.Context) error {
			var seen Seen
			seen, gone = a.LivingPost(ctx, by, post)
			byID = seen.ref
			return Failure(gone)
		},
	)
	if err != nil {
		return "", schema.PostRef{}, err
	}
	if missing != nil { // the returned error must not depend on the order in which the reads end
		return "", schema.PostRef{}, missing
	}
	return after, byID, cmp.Or(gone, NotRepost(byID))
}

// NotRepost refuses a repost, whose likes, comments and bookmarks belong to its original.
func NotRepost(post schema.PostRef) error {
	if post.RepostOf == "" {
		return nil
	}
	return &fault.Error{Kind: fault.IsRepost, Detail: fmt.Sprintf("post %s is a repost: name its original, post %s", post.ID, post.RepostOf)}
}

// Failure returns err if err is the failure of a read, and nil if err is the answer of a read.
func Failure(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind != fault.Unavailable {
		return nil
	}
	return err
}

// RefillOfLivingPosts returns the refill for a list of one user's items that OfLivingPosts reads. A
// refill reads a page, and then the page's posts with one request. The first page may take two
// requests for its posts, and a check of the user. A small first refill takes two calls more.
func RefillOfLivingPosts() page.Refill {
	return page.Refill{Budget: page.BudgetAfter(4), Calls: 2, Most: table.MaxBatchGet, Small: true}
}

// Living has the living posts of a list of one user's items, by id. OfLivingPosts adds the posts.
type Living struct {
	Posts  map[string]Seen
	access *Access
	by     Viewer
}

// LivingFor returns a Living without posts, for the list that a viewer reads.
func (a *Access) LivingFor(by Viewer) *Living { return &Living{map[string]Seen{}, a, by} }

// OfLivingPosts returns a parse that leaves out the items of deleted posts. The returned parse adds
// all living posts to living.
func OfLivingPosts[T any](ctx context.Context, living *Living, parse func([]table.Item) ([]T, error), post func(T) string) func([]table.Item) ([]T, error) {
	return func(read []table.Item) ([]T, error) {
		items, err := parse(read)
		if err != nil {
			return nil, err
		}
		posts := make([]string, len(items))
		for i, item := range items {
			posts[i] = post(item)
		}
		found, err := living.access.LivingPosts(ctx, living.by, posts)
		if err != nil {
			return nil, err
		}
		maps.Copy(living.Posts, found)
		return slices.DeleteFunc(items, func(item T) bool { _, lives := found[post(item)]; return !lives }), nil
	}
}

// PostsOf returns the first want posts of author in a span, and the same posts by key.
func (a *Access) PostsOf(ctx context.Context, by Viewer, author string, of Span, want int) (page.Stretch[Readable], Readables, error) {
	read := Readables{map[table.Key]table.Item{}}
	posts, err := page.Collect(ctx, a.Store, of.Query(schema.PostsPK(author)), want, page.Refill{}, page.Each(func(it table.Item) (Readable, bool, error) {
		p, err := schema.ParsePost(it)
		read.items[it.Key] = it
		return Readable{p}, true, err
	}))
	return posts, read, err
}

// StoredPost reads a post consistently for a read that asks for no user, and returns nil if the author's list does not have
// the post.
func (a *Access) StoredPost(ctx context.Context, why Reason, author, post string) (*schema.Post, error) {
	it, err := a.Get(ctx, schema.PostKey(author, post), true)
	if err != nil || it == nil {
		return nil, err
	}
	p, err := schema.ParsePost(*it)
	return &p, fault.Wrap("table", err)
}

// PostsBy returns references to the first want posts of author in a span. PostsBy returns fewer
// references if the span has no more posts, or if the budget ends the read. The first page reads size
// posts.
func (a *Access) PostsBy(ctx context.Context, calls *page.Budget, author string, of Span, want, size int) (page.Stretch[Ref], error) {
	if of.Empty() {
		return page.Stretch[Ref]{}, nil
	}
	q := of.Query(schema.PostsPK(author))
	q.PageSize, q.Project = size, []string{schema.AttrLikeShards}
	return page.Collect(ctx, a.Store, q, want, page.Refill{Budget: calls, Calls: 1}, page.Each(func(it table.Item) (Ref, bool, error) {
		p, err := schema.ParsePost(it)
		return Ref{p.ID, author, p.LikeShards}, true, err
	}))
}

// UserPage returns a page of a list of one user's items. The user must exist. UserPage checks the user
// only if the list is empty, because a user who owns any item has a profile.
func UserPage[T any](ctx context.Context, a *Access, read page.Stretch[T], in page.Request, scope page.Scope, position func(T) string) (page.List[T], error) {
	if len(read.Items) == 0 && read.Cut == "" && in.Cursor == "" {
		if err := a.RequireUser(ctx, scope.Owner); err != nil {
			return page.List[T]{}, err
		}
	}
	return page.Of(read, in.Size(), scope, position), nil
}

// profileAfter returns an id above all ids of the user's former lives, "" in the first life. If the
// user has no profile, profileAfter returns the error of missing.
func (a *Access) profileAfter(ctx context.Context, user string, missing func(user string) error) (after string, err error) {
	it, err := a.Get(ctx, schema.ProfileKey(user), true, schema.AttrAfter)
	if err != nil {
		return "", err
	}
	if it == nil {
		return "", missing(user)
	}
	return it.Str(schema.AttrAfter), nil
}

// RequireUser returns NotFound if the user does not exist.
func (a *Access) RequireUser(ctx context.Context, user string) error {
	_, err := a.profileAfter(ctx, user, func(user string) error { return fault.NotFoundf("there is no user %s", user) })
	return err
}

// RequireWriter returns ProfileMissing if user has no profile. Every writer needs a profile.
func (a *Access) RequireWriter(ctx context.Context, user string) error {
	_, err := a.WriterLife(ctx, user)
	return err
}

// WriterLife returns an id above all ids of the former lives of a user. The user must have a profile.
func (a *Access) WriterLife(ctx context.Context, user string) (after string, err error) {
	return a.profileAfter(ctx, user, fault.NoProfile)
}

// Refuse returns the error for a write to another user's thing. A user without a profile gets the
// error of a missing profile instead, as from every other write. Only a refused user needs the read of
// the profile, because an owner always has a profile.
func (a *Access) Refuse(ctx context.Context, user, detail string) error {
	if err := a.RequireWriter(ctx, user); err != nil {
		return err
	}
	return fault.NotYours(detail)
}

// PostKeys returns the keys of posts.
func PostKeys(refs []Ref) []table.Key {
	keys := make([]table.Key, len(refs))
	for i, r := range refs {
		keys[i] = schema.PostKey(r.Author, r.Post)
	}
	return keys
}
