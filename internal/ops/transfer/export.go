package transfer

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// exporter is one export. In memory it keeps the ids of all users, and the likes of one post at a time.
type exporter struct {
	cfg   Config
	store table.Store
	out   *bufio.Writer
	users map[string]bool
	ph    *phase
}

// Export writes the records of a table: each user with the user's follows, markers, bookmarks and
// posts, and each post with its comments and likes. The same records always give the same lines in
// the same order. An export is not a snapshot: if a record changes during the export, the export has
// the state before or after the change.
//
// Export leaves out the records of users without a profile, and the follows of such users,
// because no import accepts them.
func Export(ctx context.Context, cfg Config, out io.Writer) error {
	cfg = cfg.withDefaults()
	e := &exporter{cfg: cfg, store: table.HideExpired(cfg.Store, func() time.Time { return cfg.Clock.Expired(cfg.Now()) }), out: bufio.NewWriter(out), users: map[string]bool{}}
	if err := e.findUsers(ctx); err != nil {
		return err
	}
	e.ph = newPhase(cfg.Progress, "users", len(e.users))
	defer e.ph.finish()
	for _, user := range slices.Sorted(maps.Keys(e.users)) {
		if err := e.user(ctx, user); err != nil {
			return fmt.Errorf("export %s: %w", user, err)
		}
		e.ph.add(1)
	}
	return e.out.Flush()
}

func (e *exporter) findUsers(ctx context.Context) error {
	ph := newPhase(e.cfg.Progress, "items looked at", 0)
	defer ph.finish()
	for next, first := (table.Key{}), true; first || next != (table.Key{}); first = false {
		page, err := e.cfg.Store.Scan(ctx, table.ScanInput{After: next})
		if err != nil {
			return fmt.Errorf("look for users: %w", err)
		}
		for _, it := range page.Items {
			if it.Key.SK != schema.SortInfo || !strings.HasPrefix(it.Key.PK, schema.UserPK("")) {
				continue
			}
			profile, err := schema.ParseProfile(it)
			if err != nil {
				return err
			}
			e.users[profile.User] = true
		}
		ph.add(len(page.Items))
		next = page.Next
	}
	return nil
}

// each calls visit with each item of a partition.
func (e *exporter) each(ctx context.Context, pk string, visit func(table.Item) error) error {
	for page, err := range e.store.Query(ctx, table.Query{PK: pk, Consistent: true}) {
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			if err := visit(it); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *exporter) user(ctx context.Context, user string) error {
	it, err := e.store.Get(ctx, table.GetInput{Key: schema.ProfileKey(user), Consistent: true})
	if err != nil || it.Item == nil { // the user was removed during the export
		return err
	}
	p, err := schema.ParseProfile(*it.Item)
	if err != nil {
		return err
	}
	if err := writeRecord(e.out, record{Type: kindUser, ID: user, Name: p.Name, Bio: p.Bio, ImageURL: p.ImageURL, Data: rawData(p.Data), Time: p.CreatedAt}); err != nil {
		return err
	}
	err = e.each(ctx, schema.FollowingPK(user), func(it table.Item) error {
		edge, err := schema.ParseEdge(it)
		if err != nil || !e.users[edge.Other] {
			return err
		}
		return writeRecord(e.out, followRecord(user, edge.Other, edge))
	})
	if err != nil {
		return err
	}
	if err := e.own(ctx, user); err != nil {
		return err
	}
	return e.each(ctx, schema.PostsPK(user), func(it table.Item) error {
		p, err := schema.ParsePost(it)
		if err != nil {
			return err
		}
		if err := e.post(p); err != nil {
			return err
		}
		if err := e.comments(ctx, p.ID); err != nil {
			return err
		}
		return e.likes(ctx, p)
	})
}

// own writes the private records of a user: mutes, blocks, read markers and bookmarks. Mutes and blocks against
// removed users are included.
func (e *exporter) own(ctx context.Context, user string) error {
	for _, write := range []func(context.Context, string) error{e.hidden, e.markers, e.bookmarks} {
		if err := write(ctx, user); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) markers(ctx context.Context, user string) error {
	return e.each(ctx, schema.MarkersPK(user), func(it table.Item) error {
		m, err := schema.ParseMarker(it)
		if err != nil {
			return err
		}
		return writeRecord(e.out, record{Type: kindMarker, UserID: user, Name: m.Name, Position: m.Position, Time: m.At})
	})
}

// hidden writes the mutes and the blocks that a user made, including mutes and blocks
// against removed users.
func (e *exporter) hidden(ctx context.Context, user string) error {
	err := e.each(ctx, schema.MarksPK(user), func(it table.Item) error {
		author, ok := schema.MutedOfSK(it.Key.SK)
		if !ok {
			return nil
		}
		return writeRecord(e.out, record{Type: kindMute, UserID: user, OtherID: author, Time: schema.MuteSince(it)})
	})
	if err != nil {
		return err
	}
	return e.each(ctx, schema.BlocksPK(user), func(it table.Item) error {
		b, err := schema.ParseBlock(it)
		if err != nil || b.Since.IsZero() {
			return err
		}
		return writeRecord(e.out, record{Type: kindBlock, UserID: user, OtherID: b.Other, Time: b.Since})
	})
}

// bookmarks writes the bookmarks of a user in the order of post ids, which is defined even if two
// bookmarks have the same time. It leaves out bookmarks of posts that are not in the export,
// because no import accepts them.
func (e *exporter) bookmarks(ctx context.Context, user string) error {
	q := table.Query{PK: schema.BookmarksPK(user), Low: schema.PostSK(id.Min), Consistent: true, PageSize: table.MaxBatchGet}
	for page, err := range e.store.Query(ctx, q) {
		if err != nil {
			return err
		}
		living, err := e.living(ctx, page.Items)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			b, err := schema.ParseBookmark(it)
			if err != nil {
				return err
			}
			if !living[b.Post] {
				continue
			}
			at, err := id.Time(b.V)
			if err != nil {
				return err
			}
			if err := writeRecord(e.out, record{Type: kindBookmark, PostID: b.Post, UserID: user, Time: at}); err != nil {
				return err
			}
		}
	}
	return nil
}

// living returns which of the bookmarked posts are in the export: the living posts of users with a profile.
func (e *exporter) living(ctx context.Context, bookmarks []table.Item) (map[string]bool, error) {
	if len(bookmarks) == 0 {
		return nil, nil
	}
	keys, living := make([]table.Key, len(bookmarks)), map[string]bool{}
	for i, it := range bookmarks {
		post, _ := schema.PostOfSK(it.Key.SK) // the query returns only keys of posts
		keys[i] = schema.PostByIDKey(post)
	}
	res, err := e.store.BatchGet(ctx, table.BatchGetInput{Keys: keys, Consistent: true})
	if err != nil {
		return nil, err
	}
	for _, it := range res.Items {
		ref, err := schema.ParsePostRef(it)
		if err != nil {
			return nil, err
		}
		living[ref.ID] = !ref.Gone(e.cfg.Now()) && (e.users == nil || e.users[ref.Author])
	}
	return living, nil
}

// followRecord returns the record of a follow. It omits the lowest id as from, because a
// line without from means all posts.
func followRecord(follower, author string, edge schema.Edge) record {
	from := edge.From
	if from == id.Min {
		from = ""
	}
	return record{Type: kindFollow, FollowerID: follower, AuthorID: author, From: from, Time: edge.Since}
}

func (e *exporter) post(p schema.Post) error {
	made, err := id.Time(p.ID)
	if err != nil {
		return err
	}
	r := record{Type: kindPost, ID: p.ID, AuthorID: p.Author, Text: p.Text, ImageURL: p.ImageURL, Kind: p.Kind, Data: rawData(p.Data), Mentions: p.Mentions, Time: made}
	if !p.EditedAt.IsZero() {
		r.EditedAt = &p.EditedAt
	}
	if !p.End.IsZero() {
		r.ExpiresAt = &p.End
	}
	return writeRecord(e.out, r)
}

func (e *exporter) comments(ctx context.Context, post string) error {
	return e.each(ctx, schema.CommentsPK(post), func(it table.Item) error {
		c, err := schema.ParseComment(it)
		if err != nil || !e.users[c.Author] {
			return err
		}
		made, err := id.Time(c.ID)
		if err != nil {
			return err
		}
		return writeRecord(e.out, record{Type: kindComment, ID: c.ID, PostID: post, AuthorID: c.Author, Text: c.Text, Data: rawData(c.Data), Mentions: c.Mentions, Time: made})
	})
}

// likes writes the likes of a post in the order of user ids. So the number of shards does
// not change the order.
func (e *exporter) likes(ctx context.Context, p schema.Post) error {
	var likes []record
	for shard := range p.LikeShards {
		err := e.each(ctx, schema.LikesPK(p.ID, shard, p.LikeShards), func(it table.Item) error {
			like, err := schema.ParseLike(it)
			if err != nil || like.Kind == "" || !e.users[like.User] {
				return err
			}
			at, err := id.Time(like.Version)
			likes = append(likes, likeRecord(p.ID, like.User, like.Kind, at))
			return err
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(likes, func(a, b record) int { return cmp.Compare(a.UserID, b.UserID) })
	for _, like := range likes {
		if err := writeRecord(e.out, like); err != nil {
			return err
		}
	}
	return nil
}

// likeRecord returns the record of a like. It omits the kind like, because a line without a
// kind means this kind.
func likeRecord(post, user, kind string, at time.Time) record {
	if kind == messages.KindLike {
		kind = ""
	}
	return record{Type: kindLike, PostID: post, UserID: user, Kind: kind, Time: at}
}
