package home

import (
	"context"
	"slices"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file computes homes by pull: from the post lists of the followees and of the viewer. For a
// viewer with few followees, each request reads all lists. For a viewer with many followees, a request
// gathers the next posts in its cursor. This request and later requests then make pages of the
// gathered posts (docs/decisions/0012).

const (
	// followeesPage is the number of followees in memory at a time. A home of at most followeesPage
	// followees reads all lists for each page.
	followeesPage = 10 * homeReaders
	// gatherPages is the number of pages of followees whose lists one request of a gathering
	// reads: 5,000 followees, the default of FANFARE_MAX_FOLLOWING.
	gatherPages = 5
	// gatherPosts is the maximum number of gathered posts. gatherPosts posts fill the largest page.
	gatherPosts = page.MaxLimit
)

// pullSource computes a home from the post lists of a page of followees and of the viewer. For each
// page, pullSource reads each list, 100 lists at a time. The rate limit charges the user for these
// reads.
type pullSource struct {
	homes     *Homes
	viewer    string
	of        access.Span
	followees []followee
}

func (p *pullSource) next(ctx context.Context, calls *page.Budget, last string, want int) (page.Stretch[access.Ref], int, error) {
	lists := append([]followee{{author: p.viewer}}, p.followees...)
	top, err := p.homes.mergedPosts(ctx, wantedPosts{calls, p.of.After(last), want}, lists, page.Stretch[access.Ref]{})
	return top, len(lists), err
}

// followees returns the first want followees of viewer after the user after (from the first followee
// if after is ""), and whether each followee is muted. Both reads are consistent, for I1 and I2.
func (h *Homes) followees(ctx context.Context, viewer, after string, want int) ([]followee, error) {
	q := table.Query{PK: schema.FollowingPK(viewer), Consistent: true}
	if after != "" {
		q.After = schema.UserSK(after)
	}
	var read page.Stretch[followee]
	var muted map[string]bool
	err := h.access.All(ctx,
		func(ctx context.Context) (err error) {
			read, err = page.Collect(ctx, h.access.Store, q, want, page.Refill{}, page.Each(func(it table.Item) (followee, bool, error) {
				edge, err := schema.ParseEdge(it)
				return followee{author: edge.Other, from: edge.From}, true, err
			}))
			return err
		},
		func(ctx context.Context) (err error) { muted, err = h.mutes.MutesOf(ctx, viewer); return err },
	)
	for i := range read.Items {
		read.Items[i].muted = muted[read.Items[i].author]
	}
	return read.Items, err
}

// gathering is the progress of a home by pull with many followees. The cursor contains the gathering.
// First, requests read the lists of all followees, if possible in one request, and keep the newest
// posts. Then requests make pages of these posts, and then the next gathering begins.
type gathering struct {
	// before is the post id below which the home continues, "" for its start.
	before string
	// after is the last followee whose list was read: "" for none yet, everyFollowee if
	// the posts are complete.
	after string
	// end is the post id at which the posts end, because a list was not read below end, or because there
	// were enough posts. If end is "", the posts end at the ends of the lists.
	end string
	// posts are the ids of the newest posts of the lists read so far, newest first.
	posts []string
	// once has the originals of the reposts that former pages showed.
	once []string
}

// everyFollowee is above each user id.
const everyFollowee = "~"

// gather returns a page of viewer's home that is gathered. The page is empty only in two cases: lists
// remain to be read, because they are too many for one request or because the table is slow; or all
// gathered posts have been hidden since the gathering.
func (h *Homes) gather(ctx context.Context, viewer string, query Query, at gathering, limit int) (page.List[feed.HomeItem], error) {
	if at.after != everyFollowee {
		var err error
		if at, err = h.gathered(ctx, viewer, query, at); err != nil {
			return page.List[feed.HomeItem]{}, err
		}
	}
	if at.after != everyFollowee {
		return at.page(viewer, query, nil), nil
	}
	return h.gatheredPage(ctx, viewer, query, at, limit)
}

// gathered continues a gathering: it reads the lists of the next followees after at.after, and returns
// the new gathering.
func (h *Homes) gathered(ctx context.Context, viewer string, query Query, at gathering) (gathering, error) {
	top := page.Stretch[access.Ref]{Cut: at.end}
	for _, post := range at.posts {
		top.Items = append(top.Items, access.Ref{Post: post})
	}
	of, err := h.newerThan(ctx, query.After)
	if err != nil {
		return gathering{}, err
	}
	top, after, err := h.gatherLists(ctx, viewer, at.after, wantedPosts{of: of.After(at.before), want: gatherPosts}, top)
	if err != nil {
		return gathering{}, err
	}
	at.end, at.after, at.posts = top.Cut, after, nil
	for _, r := range top.Items {
		at.posts = append(at.posts, r.Post)
	}
	if after == everyFollowee && len(at.posts) == gatherPosts {
		at.end = at.posts[gatherPosts-1]
	}
	return at, nil
}

// gatherLists merges the posts of viewer, and of the followees after the user after ("" for all
// followees), into top: the wanted posts, with a budget for each page of followees. gatherLists reads
// the lists of gatherPages pages of followees at most, and fewer if the time of the request is too
// short for the next page. It returns the last followee, or everyFollowee at the end. A reader's
// requests gather one after another, so the number of concurrent calls for one user does not grow with
// the number of the user's requests (I11).
func (h *Homes) gatherLists(ctx context.Context, viewer, after string, wanted wantedPosts, top page.Stretch[access.Ref]) (_ page.Stretch[access.Ref], last string, err error) {
	err = h.access.InTurn(ctx, access.Lane{Author: "home of " + viewer}, viewer, func() error {
		for range gatherPages {
			began := time.Now()
			followees, err := h.followees(ctx, viewer, after, followeesPage+1)
			if err != nil {
				return err
			}
			var lists []followee
			if after == "" {
				lists = append(lists, followee{author: viewer})
			}
			if after = everyFollowee; len(followees) > followeesPage {
				followees = followees[:followeesPage]
				after = followees[followeesPage-1].author
			}
			wanted.calls = page.BudgetAfter(2)
			if top, err = h.mergedPosts(ctx, wanted, append(lists, heard(followees)...), top); err != nil {
				return err
			}
			end, limited := ctx.Deadline()
			if after == everyFollowee || limited && time.Until(end) < 2*time.Since(began) {
				break
			}
		}
		return nil
	})
	return top, after, err
}

// gatheredPage returns a page of the gathered posts.
func (h *Homes) gatheredPage(ctx context.Context, viewer string, query Query, at gathering, limit int) (page.List[feed.HomeItem], error) {
	n := min(limit, len(at.posts))
	refs, _, err := h.stillShown(ctx, viewer, at.posts[:n])
	if err != nil {
		return page.List[feed.HomeItem]{}, err
	}
	query.once = feed.NewOnce(at.once)
	items, err := h.items.Hydrate(ctx, &page.Budget{}, query.viewer(viewer), refs, nil)
	if err != nil {
		return page.List[feed.HomeItem]{}, err
	}
	if fit := page.Fitting(items); fit < len(items) {
		items = items[:fit]
		query.once.Keep(items)
		n = 1 + slices.Index(at.posts, items[fit-1].Post.ID)
	}
	if n > 0 {
		at.before, at.posts = at.posts[n-1], at.posts[n:]
	}
	at.once = query.once.Originals()
	return at.page(viewer, query, items), nil
}

// page returns a page of items that continues with at.
func (at gathering) page(viewer string, query Query, items []feed.HomeItem) page.List[feed.HomeItem] {
	if at.after == everyFollowee && len(at.posts) == 0 {
		if at.end == "" {
			return page.List[feed.HomeItem]{Items: items}
		}
		at = gathering{before: at.end, once: at.once}
	}
	return page.List[feed.HomeItem]{Items: items, NextCursor: byGathering(viewer, query.After).Cursor(at.encode())}
}

// stillShown returns references to the gathered posts that viewer's home shows now, and the originals of reposts. After the
// gathering, posts may have been deleted or expired, and authors unfollowed or muted (I2). A cursor
// grants no access, because a cursor may name posts of any author (I10).
func (h *Homes) stillShown(ctx context.Context, viewer string, posts []string) (refs []access.Ref, originals map[string]string, err error) {
	found, err := h.access.PostRefs(ctx, access.OfHome(viewer), posts)
	if err != nil {
		return nil, nil, err
	}
	originals = make(map[string]string)
	for _, post := range posts {
		seen, there := found[post]
		if byID := seen.Ref(); there && !byID.Gone(h.access.Now()) {
			originals[byID.ID] = byID.RepostOf
			refs = append(refs, access.Ref{Post: byID.ID, Author: byID.Author, LikeShards: byID.LikeShards})
		}
	}
	refs, err = h.stillFollowed(ctx, viewer, refs)
	return refs, originals, err
}

// stillFollowed returns the references that viewer's home shows now. After the read of the references,
// authors may have been unfollowed or muted, and posts may have expired (I2).
func (h *Homes) stillFollowed(ctx context.Context, viewer string, refs []access.Ref) ([]access.Ref, error) {
	var keys []table.Key
	for _, r := range refs {
		if key := schema.FollowingKey(viewer, r.Author); r.Author != viewer && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	var edges map[table.Key]table.Item
	var muted map[string]bool
	err := h.access.All(ctx,
		func(ctx context.Context) (err error) { edges, err = h.access.BatchGet(ctx, keys, true); return err },
		func(ctx context.Context) (err error) { muted, err = h.mutes.MutesOf(ctx, viewer); return err },
	)
	if err != nil {
		return nil, err
	}
	from := map[string]string{viewer: ""} // the lowest shown post, by author
	for _, it := range edges {
		edge, err := schema.ParseEdge(it)
		if err != nil {
			return nil, fault.Wrap("table", err)
		}
		from[edge.Other] = edge.From
	}
	oldest, err := h.access.OldestShown(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(refs), func(r access.Ref) bool {
		lowest, followed := from[r.Author]
		return !followed || muted[r.Author] || r.Post < max(lowest, oldest)
	}), nil
}

// byGathering returns the scope of a gathering's cursors.
func byGathering(viewer, after string) page.Scope {
	return page.Scope{List: "home", Owner: viewer, Filter: "gathering" + after, Valid: func(state string) bool { _, ok := decodeGathering(state); return ok }}
}

// homeAt reads a cursor of viewer's home. gathers reports whether the cursor is a cursor of a
// gathering. A home by push continues from the gathering's start.
func homeAt(viewer, after, cursor string) (at gathering, gathers bool, err error) {
	position, err := homeScope(viewer, after).Position(cursor)
	if err == nil {
		at.before, at.once, _ = decodePosition(position) // the scope's Valid has decoded position, too
		return at, false, nil
	}
	if state, other := byGathering(viewer, after).Position(cursor); other == nil {
		at, _ = decodeGathering(state) // the scope's Valid has decoded state, too
		return at, true, nil
	}
	return gathering{}, false, err
}

// encode returns at as bytes: the length of the user id, the user id, and each post id in 16 bytes. The id "" ends the
// gathered posts, and the remembered originals follow. Without originals, the end is absent, too.
func (at gathering) encode() string {
	ids := append([]string{at.before, at.end}, at.posts...)
	if len(at.once) > 0 {
		ids = slices.Concat(ids, []string{""}, at.once)
	}
	return string(append([]byte{byte(len(at.after))}, at.after...)) + packed(ids)
}

// decodeGathering is the reverse of encode. decodeGathering refuses a state that no gathering can
// have: the posts must descend, and must lie between before and end.
func decodeGathering(state string) (at gathering, ok bool) {
	if state == "" || len(state) <= int(state[0]) {
		return gathering{}, false
	}
	idsAt := 1 + int(state[0])
	at.after, state = state[1:idsAt], state[idsAt:]
	if at.after != "" && at.after != everyFollowee && !id.ValidUser(at.after) {
		return gathering{}, false
	}
	ids, ok := unpacked(state, 2+gatherPosts+1+feed.MostOnce)
	if !ok || len(ids) < 2 {
		return gathering{}, false
	}
	at.before, at.end, at.posts = ids[0], ids[1], ids[2:]
	if n := slices.Index(at.posts, ""); n >= 0 {
		at.posts, at.once = at.posts[:n], at.posts[n+1:]
		if len(at.once) == 0 || len(at.once) > feed.MostOnce || slices.Contains(at.once, "") {
			return gathering{}, false
		}
	}
	if len(at.posts) > gatherPosts {
		return gathering{}, false
	}
	above := at.before
	for _, post := range at.posts {
		if above != "" && post >= above {
			return gathering{}, false
		}
		above = post
	}
	return at, at.end <= above || above == ""
}
