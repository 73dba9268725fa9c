package apitest

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"fanfare/client"
)

// methodRows tell one story. ann posts, and ben follows, likes and comments. Each of the two users hides
// the other one for a while, and finally both leave. A row relies on the effects of the rows above it.
func methodRows(target Target) []methodRow {
	return slices.Concat(profileMethods(), followMethods(), postMethods(), homeMethods(), likeMethods(), notificationMethods(), reactionMethods(target.Reactions), commentMethods(), repostMethods(), ownMethods(), hideMethods(), leaveMethods())
}

func profileMethods() []methodRow {
	return []methodRow{
		{method: "DevToken", path: "/v1/dev/token", call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.DevToken(ctx, s.annID, time.Minute))(func(t client.DevToken) bool { return t.Token != "" && time.Until(t.ExpiresAt) <= time.Minute })
		}},
		{method: "Me", path: "/v1/me", call: func(ctx context.Context, s *callers) error {
			_, err := s.ann.Me(ctx)
			return refused(err, http.StatusConflict)
		}},
		{method: "PutMe", path: "/v1/me", call: func(ctx context.Context, s *callers) error {
			_, err := s.ben.PutMe(ctx, client.ProfileInput{Name: "Ben"})
			return errors.Join(err, answer(s.ann.PutMe(ctx, client.ProfileInput{Name: "Ann", Bio: "about ann", Data: []byte(`{}`)}))(func(u client.User) bool {
				return u.ID == s.annID && u.Name == "Ann" && u.Bio == "about ann" && u.Data != nil
			}))
		}},
		{method: "ActAs", path: "/v1/me", call: func(ctx context.Context, s *callers) error {
			return answer(s.service.ActAs(s.annID).Me(ctx))(func(u client.User) bool { return u.ID == s.annID })
		}},
		{method: "User", path: "/v1/users/u", call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.User(ctx, s.annID))(func(u client.User) bool { return u.Name == "Ann" && u.Counts == client.Counts{} })
		}},
	}
}

func followMethods() []methodRow {
	return []methodRow{
		{method: "FollowSilently", path: "/v1/me/following/u?silent=true", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.FollowSilently(ctx, s.annID), listed(ctx, s.ben.Following(s.benID), edge, s.annID), listed(ctx, s.ann.Followers(s.annID), edge), s.ben.Unfollow(ctx, s.annID))
		}},
		{method: "Follow", path: "/v1/me/following/u", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.Follow(ctx, s.annID), s.ann.Follow(ctx, s.benID))
		}},
		{method: "Followers", path: "/v1/users/u/followers", call: func(ctx context.Context, s *callers) error {
			return errors.Join(listed(ctx, s.ann.Followers(s.annID), edge, s.benID), listed(ctx, client.WithUsers(s.ann.Followers(s.annID)), edgeView, s.benID))
		}},
		{method: "Following", path: "/v1/users/u/following", call: func(ctx context.Context, s *callers) error {
			return errors.Join(listed(ctx, s.ann.Following(s.benID), edge, s.annID), listed(ctx, client.WithUsers(s.ann.Following(s.benID)), edgeView, s.annID))
		}},
		{method: "Friends", path: "/v1/users/u/friends", call: func(ctx context.Context, s *callers) error {
			return errors.Join(listed(ctx, s.ann.Friends(s.benID), edge, s.annID), listed(ctx, client.WithUsers(s.ann.Friends(s.benID)), edgeView, s.annID))
		}},
		{method: "Unfollow", path: "/v1/me/following/u", call: func(ctx context.Context, s *callers) error {
			return s.ann.Unfollow(ctx, s.benID)
		}},
		{method: "Relationship", path: "/v1/users/u/relationships/v", call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.Relationship(ctx, s.annID, s.benID))(func(r client.Relationship) bool {
				return r == client.Relationship{FollowedBy: true}
			})
		}},
		{method: "Profile", path: "/v1/users/u?expand=view", call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.Profile(ctx, s.annID))(func(u client.User) bool { return u.Following && !u.FollowedBy && u.Counts.Followers == 1 })
		}},
		{method: "Users", path: "/v1/users?ids=", call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.Users(ctx, s.annID, "nobody-of-this-run"))(func(f client.Found[client.UserView]) bool {
				return len(f.Items) == 1 && f.Items[0].ID == s.annID && f.Items[0].Following && slices.Equal(f.Missing, []string{"nobody-of-this-run"})
			})
		}},
	}
}

func postMethods() []methodRow {
	edited, images := "edited", []client.Image{{URL: "https://img.example/a.png", Alt: "A", Width: 3, Height: 2}}
	return []methodRow{
		{method: "CreatePost", path: "/v1/posts", call: func(ctx context.Context, s *callers) (err error) {
			in := client.PostInput{Text: "first", IdempotencyKey: "first-of-" + s.annID}
			if s.first, err = s.ann.CreatePost(ctx, in); err != nil {
				return err
			}
			if err := answer(s.ann.CreatePost(ctx, in))(func(p client.Post) bool { return reflect.DeepEqual(p, s.first) && p.AuthorID == s.annID }); err != nil {
				return err
			}
			s.second, err = s.ann.CreatePost(ctx, client.PostInput{Text: "second", Images: images, Kind: "album", Data: []byte(`{"photos": [2.0]}`), Mentions: []string{s.benID}})
			return err
		}},
		{method: "Post", path: "/v1/posts/p", call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.Post(ctx, s.second.ID))(func(p client.Post) bool {
				return reflect.DeepEqual(p, s.second) && slices.Equal(p.Images, images) && p.Kind == "album" && string(p.Data) == `{"photos":[2.0]}` && slices.Equal(p.Mentions, []string{s.benID})
			})
		}},
		{method: "EditPost", path: "/v1/posts/p", call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.EditPost(ctx, s.second.ID, client.PostEdit{Text: &edited}))(func(p client.Post) bool {
				return p.Text == edited && slices.Equal(p.Images, images) && !p.EditedAt.IsZero() && p.Data != nil
			})
		}},
		{method: "PostView", path: "/v1/posts/p?expand=view", call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.PostView(ctx, s.first.ID))(func(p client.PostView) bool {
				return reflect.DeepEqual(p.Post, s.first) && p.Author.Name == "Ann" && !p.Liked
			})
		}},
		{method: "PostViews", path: "/v1/posts?ids=", call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.PostViews(ctx, s.first.ID, "01ARZ3NDEKTSV4RRFFQ69G5FAV"))(func(f client.Found[client.PostView]) bool {
				return len(f.Items) == 1 && f.Items[0].Post.ID == s.first.ID && slices.Equal(f.Missing, []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV"})
			})
		}},
		{method: "PostsByUser", path: "/v1/users/u/posts", call: func(ctx context.Context, s *callers) error {
			page, err := s.ben.PostsByUser(s.annID, client.PostRange{}).Page(ctx, "", 1)
			return errors.Join(err, expect(len(page.Items) == 1 && page.NextCursor != "", page),
				listed(ctx, s.ben.PostsByUser(s.annID, client.PostRange{}), post, s.second.ID, s.first.ID))
		}},
		{method: "PostsByUser", path: "/v1/users/u/posts?day=", call: func(ctx context.Context, s *callers) error {
			old := client.PostRange{Since: time.Unix(0, 0), Until: s.first.CreatedAt}
			return errors.Join(listed(ctx, s.ben.PostsByUser(s.annID, client.PostRange{Day: "2020-02-29"}), post),
				listed(ctx, s.ben.PostsByUser(s.annID, old), post),
				listed(ctx, s.ben.PostsByUser(s.annID, client.PostRange{Since: s.first.CreatedAt}), post, s.second.ID, s.first.ID))
		}},
		{method: "PostViewsByUser", path: "/v1/users/u/posts?expand=view", call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ben.PostViewsByUser(s.annID, client.PostRange{}), postView, s.second.ID, s.first.ID)
		}},
	}
}

func homeMethods() []methodRow {
	return []methodRow{
		{method: "Delivery", path: "/v1/posts/p/delivery", soon: true, call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.Delivery(ctx, s.second.ID))(func(d client.Delivery) bool {
				return d.State == client.DeliveryComplete && *d.Planned == 2 && *d.Delivered == 2 && *d.Skipped == 0
			})
		}},
		{method: "Home", path: "/v1/home", soon: true, call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ben.Home(client.Push), postView, s.second.ID, s.first.ID)
		}},
		{method: "Home", path: "/v1/home?source=pull", call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ben.Home(client.Pull), postView, s.second.ID, s.first.ID)
		}},
		{method: "News", path: "/v1/home", call: func(ctx context.Context, s *callers) error {
			news, err := s.ben.News(ctx, s.first.ID, client.News{})
			if err == nil {
				err = expect(news.Unread == 1 && len(news.Items) == 1 && news.Items[0].Post.ID == s.second.ID && news.ETag != "", news)
			}
			return errors.Join(err, answer(s.ben.News(ctx, s.first.ID, news))(func(n client.News) bool { return n.ETag == news.ETag && n.Unread == 1 }))
		}},
		{method: "Live", path: "/v1/home/stream", call: live},
		{method: "BeAway", path: "/v1/dev/away", call: func(ctx context.Context, s *callers) error { return s.ben.BeAway(ctx) }},
		{method: "Home", path: "/v1/home", soon: true, call: func(ctx context.Context, s *callers) error {
			return answer(s.ben.Home(client.Push).Page(ctx, "", 0))(func(p client.Page[client.PostView]) bool { return len(p.Items) >= 2 })
		}},
	}
}

// live reads a stream that begins after the first post: the service replays the second post, and then
// sends a new post.
func live(ctx context.Context, s *callers) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	var got []string
	for update, err := range s.ben.Live(ctx, s.first.ID) {
		if err != nil {
			return err
		}
		if update.Entry == nil {
			continue
		}
		got = append(got, update.Entry.Post.ID)
		if len(got) == 1 {
			if s.after, err = s.ann.CreatePost(ctx, client.PostInput{Text: "while ben listens"}); err != nil {
				return err
			}
			continue
		}
		return expect(slices.Equal(got, []string{s.second.ID, s.after.ID}), got)
	}
	return errors.Join(ctx.Err(), expect(false, got))
}

func likeMethods() []methodRow {
	return []methodRow{
		{method: "Like", path: "/v1/posts/p/like", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.Like(ctx, s.first.ID), s.ben.Like(ctx, s.second.ID))
		}},
		{method: "LikeCount", path: "/v1/posts/p/likes/count", soon: true, call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.LikeCount(ctx, s.first.ID))(func(c client.LikeCount) bool { return c.Count == 1 })
		}},
		{method: "Likers", path: "/v1/posts/p/likes", call: func(ctx context.Context, s *callers) error {
			withUser := func(l client.Liker) string {
				if l.User == nil {
					return "without its user"
				}
				return l.User.ID
			}
			return errors.Join(listed(ctx, s.ann.Likers(s.first.ID), liker, s.benID), listed(ctx, client.WithUsers(s.ann.Likers(s.first.ID)), withUser, s.benID))
		}},
		{method: "LikeOf", path: "/v1/posts/p/likes/u", call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.LikeOf(ctx, s.first.ID, s.benID))(func(l client.Liker) bool { return l.UserID == s.benID && !l.LikedAt.IsZero() })
		}},
		{method: "LikesByUser", path: "/v1/users/u/likes", soon: true, call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ann.LikesByUser(s.benID), likedPost, s.second.ID, s.first.ID)
		}},
		{method: "LikedPostViews", path: "/v1/users/u/likes?expand=view", soon: true, call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ann.LikedPostViews(s.benID), postView, s.second.ID, s.first.ID)
		}},
		{method: "Unlike", path: "/v1/posts/p/like", call: func(ctx context.Context, s *callers) error {
			return s.ben.Unlike(ctx, s.first.ID)
		}},
		{method: "LikeOf", path: "/v1/posts/p/likes/u", soon: true, call: func(ctx context.Context, s *callers) error {
			_, err := s.ann.LikeOf(ctx, s.first.ID, s.benID)
			return refused(err, http.StatusNotFound)
		}},
	}
}

// notificationMethods are for a target whose notifications are on.
func notificationMethods() []methodRow {
	liked := func(s *callers, p client.NotificationPage) (n client.Notification) {
		if at := slices.IndexFunc(p.Items, func(n client.Notification) bool { return n.ID == "like:"+s.second.ID }); at >= 0 {
			n = p.Items[at]
		}
		return n
	}
	return []methodRow{
		{method: "Notifications", path: "/v1/me/notifications", soon: true, call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.Notifications(ctx, "", 0))(func(p client.NotificationPage) bool {
				n := liked(s, p)
				return p.Unread != nil && n.Target == s.second.ID && n.Unread && len(n.Actors) == 1 && n.Actors[0].UserID == s.benID && *n.Count == 1
			})
		}},
		{method: "NotificationViews", path: "/v1/me/notifications", call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.NotificationViews(ctx, "", 0))(func(p client.NotificationPage) bool {
				n := liked(s, p)
				return n.Post != nil && n.Post.Post.ID == s.second.ID && n.Actors[0].User.Name == "Ben"
			})
		}},
		{method: "Unread", path: "/v1/me/notifications/unread", call: func(ctx context.Context, s *callers) error {
			return answer(s.ann.Unread(ctx, 1))(func(n int) bool { return n == 1 })
		}},
		{method: "ReadNotifications", path: "/v1/me/notifications/read", soon: true, call: func(ctx context.Context, s *callers) error {
			page, err := s.ann.Notifications(ctx, "", 1)
			if err != nil {
				return err
			}
			return answer(s.ann.ReadNotifications(ctx, page.ReadTo))(func(n int) bool { return n == 0 })
		}},
	}
}

func commentMethods() []methodRow {
	return []methodRow{
		{method: "CreateComment", path: "/v1/posts/p/comments", call: func(ctx context.Context, s *callers) (err error) {
			s.comment, err = s.ben.CreateComment(ctx, s.first.ID, "a comment")
			return errors.Join(err, expect(s.comment.PostID == s.first.ID && s.comment.AuthorID == s.benID && s.comment.Text == "a comment", s.comment))
		}},
		{method: "AddComment", path: "/v1/posts/p/comments", call: func(ctx context.Context, s *callers) error {
			c, err := s.ben.AddComment(ctx, s.first.ID, client.CommentInput{Text: "with data", Data: []byte(`{"at": 1.50}`), Mentions: []string{s.annID}})
			if err != nil {
				return err
			}
			return errors.Join(expect(string(c.Data) == `{"at":1.50}` && slices.Equal(c.Mentions, []string{s.annID}), c), s.ben.DeleteComment(ctx, s.first.ID, c.ID))
		}},
		{method: "Comments", path: "/v1/posts/p/comments", call: func(ctx context.Context, s *callers) error {
			withAuthor := func(c client.Comment) string {
				if c.Author == nil {
					return "without its author"
				}
				return c.Author.ID
			}
			return errors.Join(listed(ctx, s.ann.Comments(s.first.ID), comment, s.comment.ID), listed(ctx, client.WithUsers(s.ann.Comments(s.first.ID)), withAuthor, s.benID))
		}},
		{method: "CommentsByUser", path: "/v1/users/u/comments", soon: true, call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ann.CommentsByUser(s.benID), comment, s.comment.ID)
		}},
		{method: "CommentViewsByUser", path: "/v1/users/u/comments?expand=view", soon: true, call: func(ctx context.Context, s *callers) error {
			return listed(ctx, s.ann.CommentViewsByUser(s.benID), func(c client.Comment) string {
				if c.Post == nil {
					return "without its post"
				}
				return c.Post.Post.ID
			}, s.first.ID)
		}},
		{method: "DeleteComment", path: "/v1/posts/p/comments/c", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ann.DeleteComment(ctx, s.first.ID, s.comment.ID), listed(ctx, s.ann.Comments(s.first.ID), comment))
		}},
	}
}

func hideMethods() []methodRow {
	return []methodRow{
		{method: "Mute", path: "/v1/me/mutes/u", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.Mute(ctx, s.annID), listed(ctx, s.ben.Home(client.Push), postView))
		}},
		{method: "Mutes", path: "/v1/me/mutes", call: func(ctx context.Context, s *callers) error {
			return errors.Join(listed(ctx, s.ben.Mutes(), edge, s.annID), listed(ctx, client.WithUsers(s.ben.Mutes()), edgeView, s.annID))
		}},
		{method: "Unmute", path: "/v1/me/mutes/u", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ben.Unmute(ctx, s.annID), answer(s.ben.Home(client.Push).Page(ctx, "", 0))(func(p client.Page[client.PostView]) bool { return len(p.Items) >= 2 }))
		}},
		{method: "Block", path: "/v1/me/blocks/u", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ann.Block(ctx, s.benID), refused(s.ben.Follow(ctx, s.annID), http.StatusForbidden), listed(ctx, s.ann.Followers(s.annID), edge))
		}},
		{method: "Blocks", path: "/v1/me/blocks", call: func(ctx context.Context, s *callers) error {
			return errors.Join(listed(ctx, s.ann.Blocks(), edge, s.benID), listed(ctx, client.WithUsers(s.ann.Blocks()), edgeView, s.benID))
		}},
		{method: "Unblock", path: "/v1/me/blocks/u", call: func(ctx context.Context, s *callers) error {
			return errors.Join(s.ann.Unblock(ctx, s.benID), s.ben.Follow(ctx, s.annID))
		}},
	}
}

func leaveMethods() []methodRow {
	return []methodRow{
		{method: "DeletePost", path: "/v1/posts/p", call: func(ctx context.Context, s *callers) error {
			err := s.ann.DeletePost(ctx, s.second.ID)
			_, gone := s.ben.Post(ctx, s.second.ID)
			return errors.Join(err, refused(gone, http.StatusNotFound))
		}},
		{method: "TakeDown", path: "/v1/posts/p/takedown", call: func(ctx context.Context, s *callers) error {
			_, without := s.service.TakeDown(ctx, s.first.ID, "a reason")
			down, err := s.deleter.TakeDown(ctx, s.first.ID, "a reason")
			again, err2 := s.deleter.TakeDown(ctx, s.first.ID, "another")
			seen, err3 := s.ann.Delivery(ctx, s.first.ID)
			return errors.Join(refused(without, http.StatusForbidden), err, err2, err3,
				expect(down.Reason == "a reason" && down.By != "" && !down.At.IsZero() && again == down && seen.TakenDown != nil && *seen.TakenDown == down, seen))
		}},
		{method: "Events", path: "/v1/events", call: func(ctx context.Context, s *callers) error {
			first, err := s.service.Events(ctx, "", 1, 20*time.Second)
			more, err2 := s.service.Events(ctx, first.Next, 0, 20*time.Second)
			_, err3 := s.ann.Events(ctx, "", 0, 0)
			return errors.Join(err, err2, refused(err3, http.StatusForbidden),
				expect(len(first.Events) == 1 && first.Events[0].Position == first.Next && len(first.Events[0].Event) > 0 && len(more.Events) > 0 && more.Events[0].Position > first.Next, more))
		}},
		{method: "Export", path: "/v1/me/export", call: func(ctx context.Context, s *callers) error {
			var out strings.Builder
			err := s.ann.Export(ctx, &out)
			all := out.String()
			return errors.Join(err, refused(s.service.ActAs(s.annID).Export(ctx, &out), http.StatusForbidden),
				expect(strings.HasPrefix(all, `{"type":"user","id":"`+s.annID+`"`) && !strings.Contains(all, `"end"`) && strings.HasSuffix(all, "}\n"), all))
		}},
		{method: "DeleteMe", path: "/v1/me", call: func(ctx context.Context, s *callers) error {
			err := errors.Join(s.ann.DeleteMe(ctx), s.ben.DeleteMe(ctx))
			_, gone := s.service.ActAs(s.benID).User(ctx, s.annID)
			return errors.Join(err, expect(gone != nil, "ann has still a profile"))
		}},
	}
}
