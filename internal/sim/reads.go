package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/view"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In half of the worlds users make, in the storms, the reads that no other operation makes. If
// nobody writes to the partitions of a read meanwhile, the read shows exactly the content of the
// partitions. No read shows a post whose delete was answered before the read.

// readOps is added to the numbers of the reads. Each read belongs to an operation of the workload,
// and shrinking leaves out both together.
const readOps = 100_000

// besideReads adds a read to some of the planned operations.
func (w *World) besideReads(of []planned) []planned {
	if w.seed%2 == 1 || w.seed%probeEvery == 0 {
		return of
	}
	var all []planned
	for _, p := range of {
		all = append(all, p)
		if r := draws(w.seed, p.number, 12); p.number < readOps && r.IntN(5) == 0 {
			all = append(all, planned{readOps + p.number, w.load.users[r.IntN(len(w.load.users))], "read", p.skip})
		}
	}
	return all
}

// read is a drawn read of a user, about another user and a post.
type read struct {
	w                 *World
	r                 *rand.Rand
	user, other, name string
	post, author      string // "" for none
	// began has the number of writes to each partition, and deleted has the posts whose delete was answered,
	// both at the beginning of the read.
	began   map[string]int
	tears   map[string]int // shadows.torn at the beginning
	deleted map[string]bool
	// op is the operation of the read.
	op *operation
	// shown has the posts that the read shows, and explained has the reasons that an explain
	// returned.
	shown     []string
	posts     []feed.Post
	explained []home.Explanation
	news      news
}

// readKind is a kind of read. do returns the answer as a text, and adds the shown posts to shown.
// truth, if not nil, returns the text that the table demands, and the partitions that decide the
// text, or no partition if the answer may differ. before and after, if not nil, run on the driver
// at the beginning of the read and at its answer.
type readKind struct {
	do            func(ctx context.Context, s *domain, of *read) (string, error)
	truth         func(of *read) (text string, pks []string)
	before, after func(of *read)
	// calls names a function of the product that calls the table from its own goroutines, so that the
	// function is on no stack of a call.
	calls string
}

// read makes a read.
func (l *workload) read(r *rand.Rand, p planned) *operation {
	of := &read{w: l.w, r: r, user: p.user, other: l.other(r, p.user), began: maps.Clone(l.w.writes), tears: maps.Clone(l.w.shadows.torn), deleted: clone2(l.deleted)}
	for _, v := range l.w.shadows.veils { // a transaction of this item is not wholly visible yet
		of.began[v.key.PK] = -1
	}
	kinds := readKinds(l.w.seed)
	names := sorted(kinds)
	if len(l.posts) > 0 {
		of.post = l.choose(r, l.posts)
		of.author = l.owner[of.post]
	} else {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, " of a post") })
	}
	if !l.w.shape.Notices {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "notifications with users" })
	}
	of.name = names[r.IntN(len(names))]
	if x := r.IntN(8); x < 2 && of.post != "" { // these two reads use most of the product
		of.name = []string{"explain of a post", "news of a post"}[x]
	}
	kind := kinds[of.name]
	text := ""
	if kind.before != nil {
		kind.before(of)
	}
	of.op = &operation{
		name: fmt.Sprintf("%s: %s %s", of.name, of.other, of.post), user: p.user,
		do: func(ctx context.Context, s *domain) (err error) {
			text, err = kind.do(ctx, s, of)
			return err
		},
		settle: func(err error) {
			if err == nil {
				if l.w.faults != (Rates{}) {
					l.w.performed.called(kind.calls)
				}
				of.check(kind, text)
			}
		},
	}
	return of.op
}

func (of *read) check(kind readKind, text string) {
	l := of.w.load
	for _, post := range of.shown {
		if of.deleted[post] {
			l.fail("I2", "%s of %s shows %s, whose delete was answered before", of.name, of.user, post)
		}
	}
	for _, post := range of.posts {
		l.sees(post)
	}
	if kind.after != nil {
		kind.after(of)
	}
	if kind.truth == nil {
		return
	}
	if truth, pks := kind.truth(of); len(pks) > 0 && of.unchanged(pks...) && text != truth {
		l.fail("I7", "%s of %s about %s and %s shows %q, and the table has %q", of.name, of.user, of.other, of.post, text, truth)
	}
}

// unchanged reports whether nobody has written to the partitions since the read began.
func (of *read) unchanged(pks ...string) bool {
	return !slices.ContainsFunc(pks, func(pk string) bool { return of.w.writes[pk] != of.began[pk] })
}

// torn reports whether a transaction of one of the partitions was visible in part while the read ran.
func (of *read) torn(pks ...string) bool {
	return slices.ContainsFunc(pks, func(pk string) bool {
		return of.began[pk] == -1 || of.w.shadows.torn[pk] != of.tears[pk]
	})
}

// show adds posts that a read shows.
func (of *read) show(posts ...string) { of.shown = append(of.shown, posts...) }

// views adds shown posts with all that the read shows of them.
func (of *read) views(items []view.Post) {
	for _, item := range items {
		of.show(item.Post.ID)
		of.posts = append(of.posts, item.Post)
	}
}

func readKinds(seed uint64) map[string]readKind {
	all := edgeReads()
	maps.Copy(all, edgeLists())
	maps.Copy(all, postReads())
	maps.Copy(all, ownReads())
	if seed%4 == 0 { // likes by user are on if the seed is even, so half of the worlds with reads lack them
		all["liked posts"] = readKind{do: func(ctx context.Context, s *domain, of *read) (string, error) {
			_, err := s.LikesByUser(ctx, access.As(of.user), of.other, page.Request{})
			if err != nil {
				return "", err
			}
			list, err := s.LikedPostViews(ctx, access.As(of.user), of.other, page.Request{})
			of.views(list.Items)
			return "", err
		}}
	}
	return all
}

// ownReads returns the reads of a user's own records.
func ownReads() map[string]readKind {
	own := func(of *read) (string, []string) {
		pk := schema.MarkersPK(of.user)
		return fmt.Sprint(lines(of.w.partition(pk), func(it table.Item) string { return it.Key.SK + " " + it.Str(schema.AttrPosition) })), []string{pk}
	}
	line := func(m feed.Marker) string { return schema.MarkerSK(m.Name) + " " + m.Position }
	return map[string]readKind{
		"markers": {do: func(ctx context.Context, s *domain, of *read) (string, error) {
			list, err := whole(&reader{r: of.r}, func(in page.Request) (page.List[feed.Marker], error) { return s.Markers(ctx, of.user, in) })
			return fmt.Sprint(lines(list, line)), err
		}, truth: own},
		"marker": {do: func(ctx context.Context, s *domain, of *read) (string, error) {
			all := []string{}
			for _, name := range []string{"chat", "home"} {
				m, err := s.MarkerOf(ctx, of.user, name)
				switch {
				case err == nil:
					all = append(all, line(m))
				case !isNotFound(err):
					return "", err
				}
			}
			return fmt.Sprint(all), nil
		}, truth: own},
		"bookmarks with posts": {do: func(ctx context.Context, s *domain, of *read) (string, error) {
			list, err := s.BookmarkViews(ctx, of.user, page.Request{})
			of.views(list.Items)
			return "", err
		}},
		"notifications with users": {calls: "view.(*Views).NoticeViews", do: func(ctx context.Context, s *domain, of *read) (string, error) {
			list, err := s.notices.List(ctx, of.user, page.Request{})
			if err != nil {
				return "", err
			}
			views, err := s.NoticeViews(ctx, of.user, list)
			if len(views.Items) > len(list.Items) {
				return "", fmt.Errorf("%d views of %d notifications", len(views.Items), len(list.Items))
			}
			return "", err
		}},
	}
}

func isNotFound(err error) bool {
	failure, ok := errors.AsType[*fault.Error](err)
	return ok && failure.Kind == fault.NotFound
}

// postReads returns the reads of posts, and of items that belong to a post.
func postReads() map[string]readKind {
	return map[string]readKind{
		"posts with views of a post": {calls: "view.(*Views).PostViews", do: func(ctx context.Context, s *domain, of *read) (string, error) {
			found, err := s.PostViews(ctx, access.As(of.user), []string{of.post})
			of.views(found.Items)
			return "", err
		}},
		"posts of a user": {do: func(ctx context.Context, s *domain, of *read) (string, error) {
			list, err := s.PostViewsByUser(ctx, access.As(of.user), of.other, feed.PostRange{}, page.Request{})
			of.views(list.Items)
			return "", err
		}},
		"comments with posts": {do: func(ctx context.Context, s *domain, of *read) (string, error) {
			list, err := s.CommentViewsByUser(ctx, access.As(of.user), of.other, page.Request{})
			of.show(lines(list.Items, func(c view.CommentOnPost) string { return c.On.Post.ID })...)
			return "", err
		}},
		"comments with users of a post": {calls: "view.(*Views).CommentViews", do: func(ctx context.Context, s *domain, of *read) (string, error) {
			list, err := s.Comments(ctx, access.As(of.user), of.post, page.Request{})
			if isNotFound(err) {
				return "", nil
			}
			of.show(of.post)
			if err == nil {
				_, err = s.CommentViews(ctx, of.user, list)
			}
			return "", err
		}},
		"likers with users of a post": {calls: "view.(*Views).LikerViews", do: func(ctx context.Context, s *domain, of *read) (string, error) {
			list, err := s.Likers(ctx, access.As(of.user), of.post, page.Request{})
			if isNotFound(err) {
				return "", nil
			}
			of.show(of.post)
			if err == nil {
				_, err = s.LikerViews(ctx, of.user, list)
			}
			return "", err
		}},
		"like of a post":     {do: reactionOf((*feed.Service).LikeOf)},
		"reaction of a post": {do: reactionOf((*feed.Service).ReactionOf)},
		"bookmark of a post": bookmarkRead(),
		"delivery of a post": deliveryRead(),
		"news of a post":     {before: (*read).expectNews, do: readNews, after: (*read).checkNews},
		"explain of a post":  {before: (*read).aim, do: explain, after: (*read).checkExplained},
	}
}

// reactionOf returns a read of a reaction by one of two functions. The answer may be old.
func reactionOf(get func(*feed.Service, context.Context, access.Viewer, string, string) (feed.Liker, error)) func(context.Context, *domain, *read) (string, error) {
	return func(ctx context.Context, s *domain, of *read) (string, error) {
		_, err := get(s.Service, ctx, access.As(of.user), of.post, of.other)
		if isNotFound(err) {
			return "", nil
		}
		of.show(of.post)
		return "", err
	}
}

// bookmarkRead returns a read of a bookmark that the list of bookmarks shows.
func bookmarkRead() readKind {
	return readKind{do: func(ctx context.Context, s *domain, of *read) (string, error) {
		b, err := s.BookmarkOf(ctx, of.user, of.post)
		if isNotFound(err) {
			return "", nil
		}
		of.show(of.post)
		return b.Version, err
	}, truth: func(of *read) (string, []string) {
		pks := []string{schema.BookmarksPK(of.user), schema.BlocksPK(of.user), schema.PostByIDKey(of.post).PK}
		kept, post := of.w.itemOf(schema.BookmarkOfKey(of.user, of.post)), of.w.itemOf(schema.PostByIDKey(of.post))
		if kept == nil || post == nil || post.Int(schema.AttrDeleted) != 0 || of.w.itemOf(schema.BlockKey(of.user, of.author)) != nil {
			return "", pks
		}
		b, err := schema.ParseBookmark(*kept)
		if err != nil {
			return err.Error(), pks
		}
		return b.V, pks
	}}
}

// deliveryRead returns a read of a post's delivery: one read as the post's author and one read as
// an operator.
func deliveryRead() readKind {
	return readKind{do: func(ctx context.Context, s *domain, of *read) (string, error) {
		_, err := s.Delivery(ctx, of.author, of.post)
		if err != nil {
			return "", err
		}
		d, err := s.AnyDelivery(ctx, of.post)
		return fmt.Sprint(d.State == delivery.Complete || d.State == delivery.Pulled), err
	}, truth: func(of *read) (string, []string) {
		if l := of.w.load; l.deleted[of.post] || l.doubtful[of.post] || of.w.mayHaveExpired(of.post) {
			return "", nil
		}
		return fmt.Sprint(of.w.complete(of.post)), []string{schema.DeliveryPK(of.post)}
	}}
}
