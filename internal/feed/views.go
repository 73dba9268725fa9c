package feed

import (
	"context"
	"maps"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// PostView is a post with all that a page shows of it: the item of a home, and the number of
// comments, which is exact and of the time of the read (I4).
type PostView struct {
	HomeItem
	CommentCount int64
	// LikedAt is set in a list of liked posts only: when its user liked the post.
	LikedAt time.Time
}

// UserView is a user as a list shows it, with the follows between it and the viewer.
type UserView struct {
	HomeAuthor
	Following, FollowedBy bool
}

// WithUser is an item of a list with the user that it names.
type WithUser[T any] struct {
	Item T
	User UserView
}

// JSONBytes returns the size of the item in JSON, or more.
func (w WithUser[T]) JSONBytes() int {
	n := page.FieldBytes + page.JSONBytes(w.User.Name) + page.JSONBytes(w.User.ImageURL)
	if item, ok := any(w.Item).(interface{ JSONBytes() int }); ok {
		n += item.JSONBytes()
	}
	return n
}

// JSONBytes returns the size of the view in JSON, or more.
func (u UserView) JSONBytes() int {
	return page.FieldBytes + page.JSONBytes(u.Name) + page.JSONBytes(u.ImageURL)
}

// PostView returns the view of a living post.
func (s *Service) PostView(ctx context.Context, viewer, post string) (PostView, error) {
	byID, err := s.access.LivingPost(ctx, post)
	if err != nil {
		return PostView{}, err
	}
	views, err := s.views(ctx, viewer, []access.Ref{refTo(byID)}, nil)
	if err != nil {
		return PostView{}, err
	}
	if len(views) == 0 { // deleted after LivingPost read it
		return PostView{}, fault.NotFoundf("post %s was deleted", post)
	}
	return views[0], nil
}

// PostViews returns the views of the living posts among posts, MaxLimit at most.
func (s *Service) PostViews(ctx context.Context, viewer string, posts []string) (Found[PostView], error) {
	living := map[string]schema.PostRef{}
	if err := s.access.LivingPosts(ctx, posts, living); err != nil {
		return Found[PostView]{}, err
	}
	var refs []access.Ref
	for _, post := range once(posts) {
		if byID, ok := living[post]; ok {
			refs = append(refs, refTo(byID))
		}
	}
	views, err := s.views(ctx, viewer, refs, nil)
	return found(posts, views, func(v PostView) string { return v.Post.ID }), err
}

// PostViewsByUser is PostsByUser with the views of the posts.
func (s *Service) PostViewsByUser(ctx context.Context, viewer, user string, in PostRange, req page.Request) (page.List[PostView], error) {
	list, read, scope, err := s.postsByUser(ctx, user, in, req)
	if err != nil {
		return page.List[PostView]{}, err
	}
	refs := make([]access.Ref, len(list.Items))
	for i, p := range list.Items {
		stored, err := schema.ParsePost(read[schema.PostKey(user, p.ID)])
		if err != nil {
			return page.List[PostView]{}, fault.Wrap("table", err)
		}
		refs[i] = access.Ref{Post: p.ID, Author: user, LikeShards: stored.LikeShards}
	}
	views, err := s.views(ctx, viewer, refs, read)
	return page.Fit(views, list.NextCursor, scope, viewedPost), err
}

// LikedPostViews is LikesByUser with the views of the posts.
func (s *Service) LikedPostViews(ctx context.Context, viewer, user string, in page.Request) (page.List[PostView], error) {
	list, living, scope, err := s.likesByUser(ctx, user, in)
	if err != nil {
		return page.List[PostView]{}, err
	}
	refs, at := make([]access.Ref, len(list.Items)), map[string]time.Time{}
	for i, like := range list.Items {
		refs[i], at[like.PostID] = refTo(living[like.PostID]), like.LikedAt
	}
	views, err := s.views(ctx, viewer, refs, nil)
	for i := range views {
		views[i].LikedAt = at[views[i].Post.ID]
	}
	return page.Fit(views, list.NextCursor, scope, viewedPost), err
}

// CommentOnPost is a comment with the view of its post.
type CommentOnPost struct {
	Comment
	On PostView
}

// JSONBytes returns the size of both in JSON, or more.
func (c CommentOnPost) JSONBytes() int { return c.Comment.JSONBytes() + c.On.JSONBytes() }

// CommentViewsByUser is CommentsByUser with the views of the posts.
func (s *Service) CommentViewsByUser(ctx context.Context, viewer, user string, in page.Request) (page.List[CommentOnPost], error) {
	list, living, scope, err := s.commentsByUser(ctx, user, in)
	if err != nil {
		return page.List[CommentOnPost]{}, err
	}
	posts := make([]string, len(list.Items))
	for i, c := range list.Items {
		posts[i] = c.PostID
	}
	var refs []access.Ref
	for _, post := range once(posts) {
		refs = append(refs, refTo(living[post]))
	}
	views, err := s.views(ctx, viewer, refs, nil)
	if err != nil {
		return page.List[CommentOnPost]{}, err
	}
	byID := map[string]PostView{}
	for _, v := range views {
		byID[v.Post.ID] = v
	}
	var items []CommentOnPost
	for _, c := range list.Items {
		if on, ok := byID[c.PostID]; ok { // else it was deleted since
			items = append(items, CommentOnPost{c, on})
		}
	}
	return page.Fit(items, list.NextCursor, scope, func(c CommentOnPost) string { return c.ID }), nil
}

func viewedPost(v PostView) string { return v.Post.ID }

func refTo(byID schema.PostRef) access.Ref {
	return access.Ref{Post: byID.ID, Author: byID.Author, LikeShards: byID.LikeShards}
}

// views returns the views of the living posts among refs. posts has the posts if they were
// read already. It takes one round trip and 5 table calls at most. A round trip and a call
// more is for authors of posts without a byline.
func (s *Service) views(ctx context.Context, viewer string, refs []access.Ref, posts map[table.Key]table.Item) ([]PostView, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	items, posts, err := s.hydrateWith(ctx, &page.Budget{}, viewer, refs, posts)
	if err != nil {
		return nil, err
	}
	views := make([]PostView, len(items))
	for i, item := range items {
		p, err := schema.ParsePost(posts[schema.PostKey(item.Author.ID, item.Post.ID)])
		if err != nil {
			return nil, fault.Wrap("table", err)
		}
		views[i] = PostView{HomeItem: item, CommentCount: max(0, p.Comments)}
	}
	return views, nil
}

// UserViews returns the views of the users among users that exist, MaxLimit at most.
func (s *Service) UserViews(ctx context.Context, viewer string, users []string) (Found[UserView], error) {
	byID, err := s.userViews(ctx, viewer, users, true)
	if err != nil {
		return Found[UserView]{}, err
	}
	var views []UserView
	for _, user := range once(users) {
		if view, ok := byID[user]; ok {
			views = append(views, view)
		}
	}
	return found(users, views, func(v UserView) string { return v.ID }), nil
}

// Relations returns the follows between viewer and user, as viewer sees them.
func (s *Service) Relations(ctx context.Context, viewer, user string) (UserView, error) {
	views, err := s.relations(ctx, viewer, []string{user})
	return views[user], err
}

// FollowerViews is Followers with the views of the users.
func (s *Service) FollowerViews(ctx context.Context, viewer, user string, in page.Request) (page.List[WithUser[Edge]], error) {
	list, err := s.Followers(ctx, user, in)
	return withUsers(ctx, s, viewer, list, err, page.ListByUser("followers", user), edgeUser, edgeUser)
}

// FollowingViews is Following with the views of the users.
func (s *Service) FollowingViews(ctx context.Context, viewer, user string, in page.Request) (page.List[WithUser[Edge]], error) {
	list, err := s.Following(ctx, user, in)
	return withUsers(ctx, s, viewer, list, err, page.ListByUser("following", user), edgeUser, edgeUser)
}

// FriendViews is Friends with the views of the users.
func (s *Service) FriendViews(ctx context.Context, viewer, user string, in page.Request) (page.List[WithUser[Edge]], error) {
	list, err := s.Friends(ctx, user, in)
	return withUsers(ctx, s, viewer, list, err, page.ListByUser("friends", user), edgeUser, edgeUser)
}

// LikerViews is Likers with the views of the users.
func (s *Service) LikerViews(ctx context.Context, viewer, post string, in page.Request) (page.List[WithUser[Liker]], error) {
	list, err := s.Likers(ctx, post, in)
	user := func(l Liker) string { return l.UserID }
	return withUsers(ctx, s, viewer, list, err, page.ListByUser("likers", post), user, user)
}

// CommentViews is Comments with the views of the authors.
func (s *Service) CommentViews(ctx context.Context, viewer, post string, in page.Request) (page.List[WithUser[Comment]], error) {
	list, err := s.Comments(ctx, post, in)
	return withUsers(ctx, s, viewer, list, err, page.ListByID("comments", post, ""),
		func(c Comment) string { return c.ID }, func(c Comment) string { return c.AuthorID })
}

// withUsers adds the views of the users to a page of a list. It takes two round trips and 5
// table calls at most: the profiles, and the viewer's edges in both directions.
func withUsers[T any](ctx context.Context, s *Service, viewer string, list page.List[T], err error, scope page.Scope, position, user func(T) string) (page.List[WithUser[T]], error) {
	if err != nil || len(list.Items) == 0 {
		return page.List[WithUser[T]]{NextCursor: list.NextCursor}, err
	}
	users := make([]string, len(list.Items))
	for i, item := range list.Items {
		users[i] = user(item)
	}
	views, err := s.userViews(ctx, viewer, users, false)
	if err != nil {
		return page.List[WithUser[T]]{}, err
	}
	items := make([]WithUser[T], len(users))
	for i, item := range list.Items {
		items[i] = WithUser[T]{item, views[users[i]]}
	}
	return page.Fit(items, list.NextCursor, scope, func(w WithUser[T]) string { return position(w.Item) }), nil
}

// userViews returns the views of users by their ids. A name may be a minute old.
// If ask is true, it leaves out users without a profile, and asks again, consistently,
// before it does.
func (s *Service) userViews(ctx context.Context, viewer string, users []string, ask bool) (map[string]UserView, error) {
	users = once(users)
	keys := make([]table.Key, len(users))
	for i, user := range users {
		keys[i] = schema.ProfileKey(user)
	}
	var profiles map[table.Key]table.Item
	var views map[string]UserView
	err := s.access.All(ctx,
		func(ctx context.Context) (err error) { profiles, err = s.access.Recent.Get(ctx, keys); return err },
		func(ctx context.Context) (err error) { views, err = s.relations(ctx, viewer, users); return err },
	)
	if err != nil {
		return nil, err
	}
	if ask {
		absent := slices.DeleteFunc(keys, func(key table.Key) bool { _, ok := profiles[key]; return ok })
		found, err := s.access.BatchGet(ctx, absent, true)
		if err != nil {
			return nil, err
		}
		maps.Copy(profiles, found)
	}
	for user, view := range views {
		it, ok := profiles[schema.ProfileKey(user)]
		if !ok && ask {
			delete(views, user)
			continue
		}
		if ok {
			profile, err := schema.ParseProfile(it)
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			view.Name, view.ImageURL = profile.Name, profile.ImageURL
		}
		views[user] = view
	}
	return views, nil
}

// relations returns views of users with their ids and follows alone.
func (s *Service) relations(ctx context.Context, viewer string, users []string) (map[string]UserView, error) {
	var following, followers map[string]bool
	err := s.access.All(ctx,
		func(ctx context.Context) (err error) {
			following, err = s.edgesTo(ctx, schema.FollowingPK(viewer), users)
			return err
		},
		func(ctx context.Context) (err error) {
			followers, err = s.edgesTo(ctx, schema.FollowersPK(viewer), users)
			return err
		},
	)
	views := make(map[string]UserView, len(users))
	for _, user := range users {
		views[user] = UserView{HomeAuthor{ID: user}, following[user], followers[user]}
	}
	return views, err
}

// edgesForEachUser bounds the query of a viewer's own edges: it reads this many edges for each
// user of the page.
const edgesForEachUser = 3

// edgesTo returns to which of users a partition of the viewer's edges has one. As ownLikes
// does, it asks for the edges between the first and the last of them, and reads the rest by
// key if there are very many. Both reads are consistent: a follow shows at once.
func (s *Service) edgesTo(ctx context.Context, pk string, users []string) (map[string]bool, error) {
	has := make(map[string]bool, len(users))
	if len(users) > 1 {
		q := table.Query{
			PK: pk, Low: schema.UserSK(slices.Min(users)), High: schema.UserSK(slices.Max(users)),
			PageSize: edgesForEachUser * len(users), Consistent: true, Project: []string{},
		}
		last := "" // the sort key up to which all edges were read
		for read, err := range s.access.Store.Query(ctx, q) {
			if err != nil {
				return nil, fault.Wrap("table", err)
			}
			for _, it := range read.Items {
				has[page.PositionOf(it.Key.SK)], last = true, it.Key.SK
			}
			if !read.More {
				return has, nil
			}
			if len(read.Items) > 0 {
				break
			}
		}
		users = slices.DeleteFunc(slices.Clone(users), func(user string) bool { return schema.UserSK(user) <= last })
	}
	keys := make([]table.Key, len(users))
	for i, user := range users {
		keys[i] = table.Key{PK: pk, SK: schema.UserSK(user)}
	}
	found, err := s.access.BatchGet(ctx, keys, true)
	for key := range found {
		has[page.PositionOf(key.SK)] = true
	}
	return has, err
}

// BlockViews is Blocks with the views of the users.
func (s *Service) BlockViews(ctx context.Context, user string, in page.Request) (page.List[WithUser[Edge]], error) {
	list, err := s.Blocks(ctx, user, in)
	return withUsers(ctx, s, user, list, err, page.ListByUser("blocks", user), edgeUser, edgeUser)
}

// MuteViews is Mutes with the views of the users.
func (s *Service) MuteViews(ctx context.Context, user string, in page.Request) (page.List[WithUser[Edge]], error) {
	list, err := s.Mutes(ctx, user, in)
	return withUsers(ctx, s, user, list, err, page.ListByUser("mutes", user), edgeUser, edgeUser)
}
