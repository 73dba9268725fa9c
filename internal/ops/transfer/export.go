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

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// exporter is one export. In memory it keeps the ids of all users and posts, the pairs of users with a block, and the
// likes of one post at a time.
type exporter struct {
	cfg   Config
	store table.Store
	out   *bufio.Writer
	// cut is the beginning of the export beside traffic: nothing in the export is later.
	cut time.Time
	// users and posts have the ids that were written, and blocks the pairs: all that a later line may name.
	users  map[string]bool
	posts  map[hashed]struct{}
	blocks map[hashed]struct{}
	// living returns which of the posts that items name are in the export.
	living func(ctx context.Context, posts []string) (map[string]bool, error)
	// reposts has the ids of each user's reposts and of their originals, in packed form. Their lines follow the lines of all posts.
	reposts map[string][]reposted
	// single means that only the records of one user are exported.
	single bool
	ph     *phase
}

// Export writes the records of a table: all users with their mutes and blocks, then the follows, markers and posts of
// each user, each post with its comments and likes, and all reposts and bookmarks at last. The same records always give the same
// lines in the same order.
//
// An export is not a snapshot: if a record changes during the export, the export has the state before or after the
// change. But an import always accepts the lines: a line names only users and posts of earlier lines, so neither a
// new nor a removed record leaves a line without its counterpart, and nothing is later than the beginning.
//
// Export leaves out the records of users without a profile, and the follows of such users,
// because no import accepts them.
func Export(ctx context.Context, cfg Config, out io.Writer) error {
	cfg = cfg.withDefaults()
	e := newExporter(cfg, out)
	if err := e.findUsers(ctx); err != nil {
		return err
	}
	for _, pass := range []struct {
		name   string
		stages []stage
	}{{"users", []stage{withUser}}, {"users with their posts", []stage{beforePosts, withPosts}}, {"users with their bookmarks", []stage{afterPosts}}} {
		if err := e.eachUser(ctx, pass.name, pass.stages); err != nil {
			return err
		}
	}
	return e.out.Flush()
}

func newExporter(cfg Config, out io.Writer) *exporter {
	e := &exporter{
		cfg: cfg, store: table.HideExpired(cfg.Store, func() time.Time { return cfg.Clock.Expired(cfg.Now()) }), out: bufio.NewWriter(out),
		users: map[string]bool{}, posts: map[hashed]struct{}{}, blocks: map[hashed]struct{}{}, reposts: map[string][]reposted{},
	}
	if !cfg.Alone {
		e.cut = cfg.Now()
	}
	e.living = e.written
	return e
}

// eachUser writes the stages of each user, in the order of the users' ids.
func (e *exporter) eachUser(ctx context.Context, pass string, stages []stage) error {
	e.ph = newPhase(e.cfg.Progress, pass, len(e.users))
	defer e.ph.finish()
	for _, user := range slices.Sorted(maps.Keys(e.users)) {
		if err := e.stages(ctx, user, stages...); err != nil {
			return fmt.Errorf("export %s: %w", user, err)
		}
		e.ph.add(1)
	}
	return nil
}

// stages writes the records of a user of the kinds of some stages.
func (e *exporter) stages(ctx context.Context, user string, stages ...stage) error {
	for _, at := range stages {
		for _, k := range kinds {
			if k.stage != at || e.single && !k.own || !e.single && !e.users[user] { // the first stage forgets a removed user
				continue
			}
			if err := k.export(e, ctx, user); err != nil {
				return err
			}
		}
	}
	return nil
}

// late reports whether a record was made after the beginning of the export.
func (e *exporter) late(made time.Time) bool { return !e.cut.IsZero() && made.After(e.cut) }

// upTo returns the time of a record, or the beginning of the export if the record has changed since.
func (e *exporter) upTo(at time.Time) time.Time {
	if e.late(at) {
		return e.cut
	}
	return at
}

// within writes records of which a user has at most `most`, 0 for no limit. A walk beside traffic may meet more: early
// ones that end later, and later ones. within leaves out the latest records.
func (e *exporter) within(most int, all []record) error {
	over := len(all) - most
	dropped := map[int]bool{}
	if most > 0 && over > 0 && !e.cut.IsZero() {
		latest := make([]int, len(all))
		for i := range all {
			latest[i] = i
		}
		slices.SortStableFunc(latest, func(a, b int) int { return all[b].Time.Compare(all[a].Time) })
		for _, i := range latest[:over] {
			dropped[i] = all[i].Time.After(e.cut.Add(-messages.MaxAhead))
		}
	}
	for i, r := range all {
		if dropped[i] {
			continue
		}
		r.Time = e.upTo(r.Time)
		if err := writeRecord(e.out, r); err != nil {
			return err
		}
	}
	return nil
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
func each(ctx context.Context, store table.Store, q table.Query, visit func(table.Item) error) error {
	q.Consistent = true
	for page, err := range store.Query(ctx, q) {
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

// user writes the profile of a user. It forgets a user who was removed since the users were looked for, or who is new.
func (e *exporter) user(ctx context.Context, user string) error {
	it, err := e.store.Get(ctx, table.GetInput{Key: schema.ProfileKey(user), Consistent: true})
	if err != nil {
		return err
	}
	if it.Item == nil {
		delete(e.users, user)
		return nil
	}
	p, err := schema.ParseProfile(*it.Item)
	if err != nil {
		return err
	}
	if e.late(p.CreatedAt) {
		delete(e.users, user)
		return nil
	}
	return writeRecord(e.out, profileRecord(p))
}

func profileRecord(p schema.Profile) record {
	return record{Type: kindUser, ID: p.User, Name: p.Name, Bio: p.Bio, ImageURL: p.ImageURL, Content: messages.Content{Data: messages.Data(p.Data)}, Time: p.CreatedAt}
}

// all writes the records of the items of a partition. The function of makes the record of an item, nil for an item without a
// record. A user has this number of records at most, 0 for no limit.
func (e *exporter) all(ctx context.Context, pk string, most int, of func(table.Item) (*record, error)) error {
	var all []record
	err := each(ctx, e.store, table.Query{PK: pk}, func(it table.Item) error {
		r, err := of(it)
		if err == nil && r != nil {
			all = append(all, *r)
		}
		return err
	})
	if err != nil {
		return err
	}
	return e.within(most, all)
}

func (e *exporter) follows(ctx context.Context, user string) error {
	return e.all(ctx, schema.FollowingPK(user), int(e.cfg.MaxFollowing), func(it table.Item) (*record, error) {
		edge, err := schema.ParseEdge(it)
		if _, between := e.blocks[pairOf(user, edge.Other)]; err != nil || between || !e.users[edge.Other] {
			return nil, err
		}
		return followRecord(user, edge.Other, edge), nil
	})
}

// postsOf writes the posts of a user, each with its comments and likes. The export of a single user omits these.
func (e *exporter) postsOf(ctx context.Context, user string) error {
	return each(ctx, e.store, table.Query{PK: schema.PostsPK(user)}, func(it table.Item) error {
		p, err := schema.ParsePost(it)
		if err != nil {
			return err
		}
		made, err := id.Time(p.ID)
		if err != nil || e.late(made) {
			return err
		}
		if p.RepostOf != "" {
			e.reposts[user] = append(e.reposts[user], reposted{hashed(id.Pack(p.ID)), hashed(id.Pack(p.RepostOf))})
			return nil
		}
		if err := e.post(ctx, p, made); err != nil || e.single {
			return err
		}
		e.posts[hashOf(p.ID)] = struct{}{}
		if err := e.comments(ctx, p.ID); err != nil {
			return err
		}
		return e.likes(ctx, p)
	})
}

// reposted is a repost, and its original.
type reposted struct{ id, of hashed }

// repostsOf writes the reposts of a user whose originals are in the export.
func (e *exporter) repostsOf(ctx context.Context, user string) error {
	for some := range slices.Chunk(e.reposts[user], table.MaxBatchGet) {
		originals := make([]string, len(some))
		for i, r := range some {
			originals[i] = id.Unpack(r.of[:])
		}
		living, err := e.living(ctx, originals)
		if err != nil {
			return err
		}
		for i, r := range some {
			repost := id.Unpack(r.id[:])
			made, err := id.Time(repost)
			if err == nil && living[originals[i]] {
				err = writeRecord(e.out, record{Type: kindRepost, ID: repost, PostID: originals[i], UserID: user, Time: made})
			}
			if err != nil {
				return err
			}
		}
	}
	delete(e.reposts, user)
	return nil
}

// mutes writes the mutes that a user made, including mutes of removed users.
func (e *exporter) mutes(ctx context.Context, user string) error {
	return e.all(ctx, schema.MarksPK(user), feed.MaxMutes, func(it table.Item) (*record, error) {
		author, ok := schema.MutedOfSK(it.Key.SK)
		if !ok {
			return nil, nil
		}
		return &record{Type: kindMute, UserID: user, OtherID: author, Time: schema.MuteSince(it)}, nil
	})
}

// blocksOf writes the blocks that a user made, including blocks of removed users.
func (e *exporter) blocksOf(ctx context.Context, user string) error {
	return e.all(ctx, schema.BlocksPK(user), 0, func(it table.Item) (*record, error) {
		b, err := schema.ParseBlock(it)
		if err != nil || b.Since.IsZero() {
			return nil, err
		}
		e.blocks[pairOf(user, b.Other)] = struct{}{}
		return &record{Type: kindBlock, UserID: user, OtherID: b.Other, Time: b.Since}, nil
	})
}

// followRecord returns the record of a follow. It omits the lowest id as from, because a
// line without from means all posts.
func followRecord(follower, author string, edge schema.Edge) *record {
	from := edge.From
	if from == id.Min {
		from = ""
	}
	return &record{Type: kindFollow, FollowerID: follower, AuthorID: author, From: from, Time: edge.Since, Silent: edge.Silent}
}

// post writes a post. A quote has its original only if the original lives.
func (e *exporter) post(ctx context.Context, p schema.Post, made time.Time) error {
	r := record{Type: kindPost, ID: p.ID, AuthorID: p.Author, Content: p.Content, Time: made}
	if p.QuoteOf != "" {
		living, err := e.alive(ctx, []string{p.QuoteOf})
		if err != nil {
			return err
		}
		if living[p.QuoteOf] {
			r.QuoteOf = p.QuoteOf
		}
	}
	if !p.EditedAt.IsZero() {
		r.EditedAt = new(e.upTo(p.EditedAt))
	}
	return writeRecord(e.out, r)
}

func (e *exporter) comments(ctx context.Context, post string) error {
	return each(ctx, e.store, table.Query{PK: schema.CommentsPK(post)}, func(it table.Item) error {
		c, err := schema.ParseComment(it)
		if err != nil || !e.users[c.Author] {
			return err
		}
		made, err := id.Time(c.ID)
		if err != nil || e.late(made) {
			return err
		}
		return writeRecord(e.out, record{Type: kindComment, ID: c.ID, PostID: post, AuthorID: c.Author, Content: messages.Content{Text: c.Text, Data: messages.Data(c.Data), Mentions: c.Mentions}, Time: made})
	})
}

// likes writes the likes of a post in the order of user ids. So the number of shards does
// not change the order.
func (e *exporter) likes(ctx context.Context, p schema.Post) error {
	var likes []record
	for shard := range p.LikeShards {
		err := each(ctx, e.store, table.Query{PK: schema.LikesPK(p.ID, shard, p.LikeShards), High: schema.LikersEnd()}, func(it table.Item) error {
			like, err := schema.ParseLike(it)
			if err != nil || like.Kind == "" || !e.users[like.User] {
				return err
			}
			at, err := id.Time(like.Version)
			likes = append(likes, likeRecord(p.ID, like.User, like.Kind, e.upTo(at)))
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
	return record{Type: kindLike, PostID: post, UserID: user, Content: messages.Content{Kind: kind}, Time: at}
}
