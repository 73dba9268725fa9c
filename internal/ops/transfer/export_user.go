package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/lifetime"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// ExportUser writes the records of one user: the profile, the follows in both directions, the user's
// own mutes, blocks and read markers, the posts, and the user's own reposts, comments, likes and bookmarks of
// living posts. Without the index of likes by user, ExportUser writes all records except the likes,
// and returns a fault.IndexOff.
func ExportUser(ctx context.Context, cfg Config, user string, out io.Writer) error {
	cfg = cfg.withDefaults()
	way := access.New(access.Config{Store: cfg.Store, IDs: cfg.IDs, Now: cfg.Now, Lifetimes: lifetime.Fixed(cfg.TTL)})
	e := newExporter(cfg, out)
	e.store, e.cut, e.out, e.living, e.single = way.Store, time.Time{}, bufio.NewWriterSize(out, exportBuffer), e.alive, true
	s := feed.New(feed.Config{Access: way, LikesByUser: cfg.LikesByUser})
	profile, err := s.User(ctx, user)
	if unknown, ok := errors.AsType[*fault.Error](err); ok && unknown.Kind == fault.NotFound {
		return fmt.Errorf("%s: check the id, nothing was written", unknown.Detail)
	}
	if err != nil {
		return err
	}
	err = writeRecord(e.out, record{Type: kindUser, ID: user, Name: profile.Name, Bio: profile.Bio, ImageURL: profile.ImageURL, Content: messages.Content{Data: messages.Data(profile.Data)}, Time: profile.CreatedAt})
	if err != nil {
		return err
	}
	for _, pk := range []string{schema.FollowingPK(user), schema.FollowersPK(user)} {
		if err := each(ctx, e.store, table.Query{PK: pk}, func(it table.Item) error { return e.follow(ctx, pk, user, it) }); err != nil {
			return err
		}
	}
	if err := e.stages(ctx, user, withUser, beforePosts, withPosts, afterPosts); err != nil {
		return err
	}
	for _, write := range []func(context.Context, string) error{e.postsOf, e.repostsOf} {
		if err := write(ctx, user); err != nil {
			return err
		}
	}
	all := access.AnyAudience(access.OwnExport) // the lines have the ids of posts of others, never their texts
	err = pages(func(page page.Request) (page.List[feed.Comment], error) {
		return s.CommentsByUser(ctx, all, user, page)
	}, func(c feed.Comment) error {
		return writeRecord(e.out, record{Type: kindComment, ID: c.ID, PostID: c.PostID, AuthorID: user, Content: messages.Content{Text: c.Text, Data: messages.Data(c.Data), Mentions: c.Mentions}, Time: c.CreatedAt})
	})
	if err != nil {
		return err
	}
	err = pages(func(page page.Request) (page.List[feed.LikedPost], error) {
		return s.ReactionsByUser(ctx, all, user, page)
	}, func(l feed.LikedPost) error {
		return writeRecord(e.out, likeRecord(l.PostID, user, l.Kind, l.LikedAt))
	})
	if off, ok := errors.AsType[*fault.Error](err); err != nil && (!ok || off.Kind != fault.IndexOff) {
		return err
	}
	if flushed := e.out.Flush(); flushed != nil {
		return flushed
	}
	return err
}

// exportBuffer is the number of bytes that ExportUser writes at once.
const exportBuffer = 32 << 10

// follow writes a follow by the user, or a follow by one of the user's followers. The
// lowest post id of a follow is in the edge under the follower. Only the follower sees a silent follow.
func (e *exporter) follow(ctx context.Context, pk, user string, it table.Item) error {
	edge, err := schema.ParseEdge(it)
	if err != nil {
		return err
	}
	if pk == schema.FollowingPK(user) {
		return writeRecord(e.out, *followRecord(user, edge.Other, edge))
	}
	if edge.Silent {
		return nil
	}
	own, err := e.store.Get(ctx, table.GetInput{Key: schema.FollowingKey(edge.Other, user), Consistent: true})
	if err != nil || own.Item == nil { // the follow has ended during the export
		return err
	}
	if edge, err = schema.ParseEdge(*own.Item); err != nil {
		return err
	}
	follower, _ := schema.UserOfSK(it.Key.SK) // ParseEdge has already checked this key
	return writeRecord(e.out, *followRecord(follower, user, edge))
}

// pages calls visit with each item of a list.
func pages[T any](read func(page.Request) (page.List[T], error), visit func(T) error) error {
	for page := (page.Request{Limit: page.MaxLimit}); ; {
		list, err := read(page)
		if err != nil {
			return err
		}
		for _, item := range list.Items {
			if err := visit(item); err != nil {
				return err
			}
		}
		if page.Cursor = list.NextCursor; page.Cursor == "" {
			return nil
		}
	}
}
