package sim

import (
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fanfare/internal/planttest"
)

var (
	planted  = flag.Bool("planted", false, "build the product with each planted bug, and find it")
	onlyBug  = flag.String("bug", "", "the one planted bug to look for")
	stopSoon = flag.Bool("stop", false, "end with the first seed that finds something")
)

// mostSeeds is the maximum number of seeds in the search for one planted bug.
const mostSeeds = 1000

// bug is a change of the product's own code that breaks an invariant. The compiler uses a changed
// copy of the file in place of the real file, so the product itself stays free of the bug.
type bug struct {
	name string
	// breaks names the invariants that the bug breaks. The seed that finds the bug violates one of
	// these invariants. "stuck" stands for a world that never becomes quiet.
	breaks string
	edits  []edit
}

// edit replaces text that occurs once in a file. If the text does not occur exactly once any more,
// the test fails, and somebody has to plant the bug again.
type edit struct{ file, old, new string }

func bugs() []bug {
	const (
		ledger   = "internal/likeagg/ledger.go"
		window   = "internal/likeagg/window.go"
		inc      = "internal/likeagg/incarnation.go"
		like     = "internal/likeagg/like.go"
		attempt  = "internal/likeagg/attempt.go"
		collect  = "internal/likeagg/collect.go"
		chunk    = "internal/fanout/chunk.go"
		plan     = "internal/fanout/plan.go"
		posts    = "internal/fanout/posts.go"
		backfill = "internal/fanout/backfill.go"
		removal  = "internal/fanout/removal.go"
		write    = "internal/fanout/write.go"
		rebuild  = "internal/fanout/away.go"
		presence = "internal/feed/home/away.go"
		walk     = "internal/fanout/walk.go"
		mode     = "internal/fanout/mode.go"
		follows  = "internal/feed/follows.go"
		unfollow = "internal/feed/unfollows.go"
		bookmark = "internal/feed/bookmarks.go"
		marker   = "internal/feed/markers.go"
		lives    = "internal/schema/lifetimes.go"
		comments = "internal/feed/comments.go"
		likes    = "internal/feed/likes.go"
		home     = "internal/feed/home/home.go"
		lists    = "internal/feed/home/lists.go"
		items    = "internal/feed/items.go"
		publish  = "internal/feed/publish.go"
		deletion = "internal/feed/posts.go"
		edits    = "internal/feed/edits.go"
		takeDown = "internal/feed/takedown.go"
		reads    = "internal/feed/access/table.go"
		timeline = "internal/feed/home/timeline.go"
		heads    = "internal/feed/home/heads.go"
		shared   = "internal/memory/shared_reads.go"
		arrivals = "internal/feed/home/arrivals.go"
		agenda   = "internal/live/agenda.go"
		hub      = "internal/live/home.go"
		tail     = "internal/live/tail.go"
		consume  = "internal/queue/consume.go"
		blocks   = "internal/feed/blocks.go"
		forget   = "internal/feed/removal/forget.go"
		users    = "internal/feed/users.go"
		bylines  = "internal/fanout/bylines.go"
		worker   = "internal/fanout/worker.go"
		events   = "internal/fanout/events.go"
		counts   = "internal/ops/audit/counts.go"
		tally    = "internal/ops/audit/likes.go"
		entries  = "internal/ops/audit/entries.go"
		mend     = "internal/feed/mend.go"
		life     = "internal/feed/lives.go"
		sweep    = "internal/feed/removal/sweep.go"
		last     = "internal/fanout/forget.go"
		hour     = "internal/feed/hour.go"
		living   = "internal/feed/access/living.go"
		postItem = "internal/schema/posts.go"
	)
	return []bug{
		{"no fence", "I3 I9", []edit{{ledger, `case a.receives < w.cfg.FenceAfter && !w.inLastHour(a):`,
			"case a.receives >= w.cfg.FenceAfter: a.choose(false)\ncase a.receives < w.cfg.FenceAfter:"}}},
		{"overlapping windows of one post", "I3", []edit{{collect, `!p.next.closed || p.running != nil {`, `!p.next.closed {`}}},
		{"clean end noted of an incarnation that lost a window", "I3", []edit{{inc, `w.inc.lost[w.post] = true`, `delete(w.inc.lost, w.post)`}}},
		{"like left if the last try was refused, whatever came before", "I3", []edit{{attempt, `if !doubtful && failures >= leaveAfter`, `if undone(err) && failures >= leaveAfter`}}},
		{"like never left", "I8 stuck", []edit{{attempt, `if !doubtful && failures >= leaveAfter`, `if !doubtful && failures < 0`}}},
		{"flush left", "I3", []edit{
			{attempt, `return a != nil && w.leave(a)`, `return a == nil || w.leave(a)`},
			{window, `return &lostError{"the flush failed", err}`, `if _, later := errors.AsType[*queue.Later](err); later {
			return err
		}
		return &lostError{"the flush failed", err}`},
		}},
		{"delta added twice after a lost answer", "I3", []edit{{window, `res, err = w.cfg.Store.Update(ctx, in)`, `res, err = w.cfg.Store.Update(ctx, in); if err != nil && !refused(err) { in.If = nil }`}}},
		{"flush past an unresolved put", "I3", []edit{{like, `_, err := w.cfg.Store.Put(ctx, in)`, `_, err := w.cfg.Store.Put(ctx, in); if err != nil && !refused(err) { return nil }`}}},
		{"ack before flush", "I3 I6", []edit{{window, `if stamped == 0 {`, `for _, a := range w.actions { for _, msg := range a.messages { if a.err == nil { msg.Ack() } } }; if stamped == 0 {`}}},
		{"lost-answer put counted twice", "I3", []edit{
			{like, `a.stamped = old // this window wrote the like, but the answer was lost`, `old.LikeShards = -1; a.stamped = old`},
			{window, `delta[a.stamped.Kind]++`, `delta[a.stamped.Kind]++; if a.stamped.LikeShards < 0 { delta[a.stamped.Kind]++; delta[a.stamped.Base]-- }`},
		}},
		{"change of kind that leaves the former one", "I3", []edit{{window, `delta[a.stamped.Base]--`, `if a.stamped.Kind == "" { delta[a.stamped.Base]-- }`}}},
		{"base without its kind", "I3", []edit{{like, `Base: old.Kind}`, `Base: map[bool]string{true: schema.KindLike}[old.Kind != ""]}`}}},
		{"kinds of a window flushed in two updates", "I3", []edit{
			{window, `Add:       add,`, `Add:       add[:1],`},
			{window, `w.flushed = res.Item
	return nil`, `w.flushed = res.Item
	if len(add) > 1 {
		_, err = w.cfg.Store.Update(ctx, table.UpdateInput{Key: in.Key, Add: add[1:]})
	}
	return err`},
		}},
		{"viewer's reaction of another kind shown as a like", "I3", []edit{{items, `Liked: p.own[r.Post] == schema.KindLike,`, `Liked: p.own[r.Post] != "",`}}},
		{"reactions of all kinds listed as likes", "I3", []edit{{likes, `likerOf(like), like.Kind != "" && (kind == "" || like.Kind == kind), err`, `likerOf(like), like.Kind != "", err`}}},
		{"repair of one kind alone", "I3 audit", []edit{{tally, `by = append(by, table.Attr{Name: schema.AttrCount(kind), Value: table.N(lack[kind])})`, `by = []table.Attr{{Name: schema.AttrCount(kind), Value: table.N(lack[kind])}}`}}},
		{"reaction refused while its kind is switched off", "I3 I6", []edit{{"internal/likeagg/likeagg.go", `if receives > queue.MaxAttempts && cfg.Now().Sub(at) > kindWait && cfg.Clock.Doubt() == nil {`, `if receives > 0 && !at.IsZero() {`}}},
		{"nack that drops the rest of a batch", "I6 stuck", []edit{{collect, `answerer.Answer(ctx, msg, err, ctx.Err() != nil)`, `answerer.Answer(ctx, msg, err, ctx.Err() != nil); if err != nil { return }`}}},
		{"dead letter dropped", "I6", []edit{{consume, `a.Dead.DeadLetter(ctx, a.Topic, msg, reason); dlErr != nil {`, `error(nil); dlErr != nil && reason != "" {`}}},
		{"event from ahead made a dead letter", "I6", []edit{{"messages/age.go", `case wait > MaxWait:`, `case wait > 0:`}}},
		{"mark expires while entries remain", "I1 I2", []edit{{unfollow, `TTL: s.access.Now().Add(lives.Longest() + unfollowedSlack),`, `TTL: s.access.Now().Add(lives.Longest() / 43_200),`}}},
		{"mark not written on unfollow", "I1 I2 I11", []edit{{unfollow,
			"now.isSilent())},\n\t\t{Put: &table.PutInput{Item: mark.Item(), If: s.unchanged(now.mark)}},",
			"now.isSilent())},\n\t\t{Check: &table.CheckInput{Key: schema.MarkKey(mark.User, mark.User), If: table.Absent{}}},"}}},
		{"entries of muted authors shown", "I1 I2", []edit{{timeline, ` && !p.marks.muted[r.Author]`, ``}}},
		{"posts of muted authors merged in", "I1 I2", []edit{{timeline, ` && !read.muted[m.Author]`, ``}}},
		{"follow over a block", "I4 I2", []edit{{follows, `ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: schema.BlockKey(follower, author), If: table.Absent{}}})`, `ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: schema.BlockKey(follower, follower), If: table.Absent{}}})`}}},
		{"mutes read with eventual consistency by pull", "I1 I2 I13", []edit{{"internal/feed/mutes.go", `Consistent: true, Project: []string{}}`, `Project: []string{}}`}}},
		{"block noted for its own user only", "I2", []edit{{blocks, `for _, u := range []string{user, other} {
		if _, there`, `for _, u := range []string{user} {
		if _, there`}}},
		{"block that leaves a follow", "I4 I2", []edit{{blocks, `table.TransactOp{Check: &table.CheckInput{Key: schema.FollowingKey(f[0], f[1]), If: table.Absent{}}}`, `table.TransactOp{Check: &table.CheckInput{Key: schema.FollowingKey(f[0], f[0]), If: table.Absent{}}}`}}},
		{"blocks of a removed user ended", "I2 I5", []edit{{forget, `if err != nil || b.Since.IsZero() || b.Since.After(`, `if err != nil || b.Since.After(`},
			{blocks, `changed, err := s.endBlock(ctx, b.User, b.Other, now)`, `changed, err := s.endBlock(ctx, b.User, b.Other, now)
		if err == nil && !b.By.IsZero() {
			if now, err = s.readBlocks(ctx, b.Other, b.User); err == nil {
				changed, err = s.endBlock(ctx, b.Other, b.User, now)
			}
		}`}}},
		{"mutes of a removed user ended", "I5", []edit{{forget, `own := sort(sw.user)`, `own := sort(sw.user)
		if own.All.PK == schema.MarksPK(sw.user) {
			own.All = table.Query{PK: schema.MutersPK(sw.user), Consistent: true}
		}`}}},
		{"ttl on a kept block", "I5 I6 audit", []edit{{"internal/schema/blocks.go", `	return it
}

// BlockedSince`, `	it.Attrs = append(it.Attrs, num(table.AttrTTL, b.Since.Add(365*24*time.Hour).Unix()))
	return it
}

// BlockedSince`}}},
		{"entries below from shown", "I1", []edit{{timeline, `!m.Hides(r.Post) && !p`, `!p`}}},
		{"mark that hides entries expires with the merging", "I1", []edit{{backfill, `err == nil && first.Add(`, `err != nil && first.Add(`}}},
		{"mark removed before the backfill is done", "I1 I11", []edit{{backfill, `copied, err := w.copyPosts(ctx, mark, began)`,
			`_, err = w.cfg.Store.Delete(ctx, table.DeleteInput{Key: schema.MarkKey(mark.User, mark.Author)}); if err != nil { return false, err }; copied, err := w.copyPosts(ctx, mark, began)`}}},
		{"entries of a new follow removed", "I1 audit", []edit{
			{removal, `If: table.All{`, `If: table.Any{table.Exists{}, table.Absent{}, `},
			{removal, `res.Item.Str(schema.AttrVersion) != e.MarkVersion`, `e == nil`},
			{removal, `res.Item.Str(schema.AttrKind) != string(schema.MarkUnfollowed)`, `e == nil`},
		}},
		{"chunk ledger counted twice", "I6 I1", []edit{
			{chunk, `{Name: schema.AttrDelivered, Value: table.N(c.Delivered)},`, ``},
			{chunk, `If: table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrDone}},`,
				`Add: []table.Attr{{Name: schema.AttrDelivered, Value: table.N(c.Delivered)}}, If: table.Exists{},`},
		}},
		{"unprocessed items dropped", "I1", []edit{{write, "!unavailable || ctx.Err() != nil {\n\t\t\treturn err", "!unavailable || ctx.Err() != nil || unavailable {\n\t\t\treturn nil"}}},
		{"tombstone not checked before a page", "I2", []edit{{chunk, "if err != nil || ref.Deleted {", "if ref.Deleted = false; err != nil {"}}},
		{"posts of a home read with eventual consistency", "I1 I2", []edit{{reads, `return a.BatchGet(ctx, keys, true)`, `return a.BatchGet(ctx, keys, false)`}}},
		{"count changed outside the transaction", "I4", []edit{{follows,
			"\t\t{Update: count},\n\t\t{Update: countFollower(author, follower, 1, now.silent)},\n", "\t\t{Update: countFollower(author, follower, 1, now.silent)},\n"},
			{follows, "\t// The follow is durable, and the mark", "\tif _, err := s.access.Store.Update(ctx, *access.AddTo(schema.CountsKey(follower), schema.AttrFollowing, 1)); err != nil {\n\t\treturn false, fault.Wrap(\"table\", err)\n\t}\n\t// The follow is durable, and the mark"},
		}},
		{"answered before it is durable", "I5", []edit{{publish, `err := s.access.PublishPost(ctx, d.post); err != nil {`, `err := s.access.PublishPost(ctx, d.post); err != nil && d.after == "never" {`}}},
		{"cursor inclusive", "I1 I7", []edit{{"internal/feed/access/span.go", `q.After = schema.PostSK(s.High) // the key of High sorts below each entry of that post`, `q.High = schema.PostSK(s.High) + "~"`}}},
		{"cursor of comments inclusive", "I7", []edit{{"internal/feed/list.go", `l.query.After = l.sortKey(position)`, `l.query.Low = l.sortKey(position)`}}},
		{"comment answered before it is durable", "I7", []edit{{comments, `byID, 1, write); err != nil {`, `byID, 1, write); err != nil && in.Text == "" {`}}},
		{"comment counted outside of its transaction", "I4 audit", []edit{{comments, `op, table.TransactOp{Update: count})
	if`, `op)
	if err == nil {
		_, err = s.access.Store.Update(ctx, *count)
	}
	if`}}},
		{"chunk skips the follower at its boundary", "I1", []edit{{chunk, `Low: schema.UserSK(r.first), After: after,`,
			`Low: schema.UserSK(r.first), After: func() string { if after == "" && r.first != "" { return schema.UserSK(r.first) }; return after }(),`}}},
		{"planner that skips a page boundary", "I1 I6", []edit{{plan, `next = schema.Chunk{Post: pl.p.id, First: user, TTL`,
			`next = schema.Chunk{Post: pl.p.id, First: user + "0", TTL`}}},
		{"followers read before the post is in the table", "I1 I5 audit", []edit{
			{posts, "\tstored, err := w.cfg.Posts.EnsurePost(ctx, e)\n\tif err != nil {\n\t\treturn false, err\n\t}\n\tif stored.Deleted {",
				"\tstored := schema.Post{ID: e.PostID, Author: e.AuthorID, LikeShards: max(1, e.LikeShards)}\n\tctx = context.WithValue(ctx, \"ensure\", func() (schema.Post, error) { return w.cfg.Posts.EnsurePost(ctx, e) })\n\tif stored.Deleted {"},
			{posts, "\tstate, begun, err := w.begin(ctx, plan)",
				"\tif ensure, ok := ctx.Value(\"ensure\").(func() (schema.Post, error)); ok {\n\t\tif ref, err := ensure(); err != nil || ref.Deleted {\n\t\t\treturn err\n\t\t}\n\t}\n\tstate, begun, err := w.begin(ctx, plan)"},
		}},
		{"follower page read with eventual consistency", "I1", []edit{{chunk, `PageSize: w.cfg.PageSize, Consistent: true, Project: []string{},`, `PageSize: w.cfg.PageSize, Project: []string{},`}}},
		{"late follow not stopped by the mark", "I2 I5", []edit{{"internal/feed/edges.go", `if mark == nil { // absent, or expired and not deleted yet`, `if s != nil { return nil }; if mark == nil {`}}},
		{"post deleted without its flag in the post by id", "I2", []edit{{deletion, "\tbyID.Deleted = true\n", ""}}},
		{"post deleted without a tombstone", "I2 I6", []edit{{deletion, `table.TransactOp{Put: &table.PutInput{Item: tombstone.Item(), If: living}}`,
			`table.TransactOp{Delete: &table.DeleteInput{Key: tombstone.Item().Key, If: living}}`}}},
		{"tombstone expires while messages are left", "I2 I6", []edit{{deletion, `s.access.Now().Add(lives.Longest() + schema.DeliveryKept)`, `s.access.Now().Add(0 * lives.Longest())`}}},
		// The next bugs are about days, ages, the TTL, sleepers, stops and shards.
		{"absence of an entry read as counted after a day", "I3", []edit{
			{inc, "func dayOf(", "func daysOld(inc string) int64 {\n\tday, _ := strconv.ParseInt(inc[:dayDigits], dayBase, 64)\n\treturn dayOf(time.Now()) - day\n}\n\nfunc dayOf("},
			{ledger, "\treturn flushOpen\n", "\tif !flushed && daysOld(g.Inc) > 1 {\n\t\treturn flushCounted\n\t}\n\treturn flushOpen\n"},
		}},
		{"unlike expires after an hour", "I3", []edit{{like, `likeTTL = Outlived`, `likeTTL = time.Hour`}}},
		{"message of any age applied", "I3", []edit{{"messages/age.go", `case now.Sub(at) > MaxAge:`, `case now.Sub(at) > 1000*MaxAge:`}}},
		{"aggregator goes on after a sleep of weeks", "I3", []edit{{attempt, `if a != nil {`, `if a != nil && a.version == "-" {`}}},
		{"like of an unknown post dropped", "I6", []edit{{window, `a.err = unknownPost(w.post, a.receives, w.collector.cfg.Now())`, `_ = unknownPost(w.post, a.receives, w.collector.cfg.Now())`}}},
		{"message acked that a stop hands back", "I1 I3 I5 I6", []edit{{consume, "receive.RetryAfter(0)\n\t\tlog.Info(\"handed", "msg.Ack()\n\t\tlog.Info(\"handed"}}},
		{"entries of a post expire after a day", "I1 I6 I7", []edit{{worker, `ttl := at.Add(lives.Written(at))`, `ttl := at.Add(24 * time.Hour)`}}},
		{"all likes in the first shard", "I3", []edit{{window, `w.shards = ref.LikeShards`, `w.shards = 1`}}},
		{"mark walk without conditions", "I1 I2", []edit{{walk, `	same := table.Cond(table.Absent{})`, `	same := table.Cond(nil)`}}},
		{"mark walk that hides older entries", "I1", []edit{{walk, `Pull: mode.Since, V: mode.V, Version`, `From: mode.Since, V: mode.V, Version`}}},
		{"pulled mark that keeps the ttl of its backfill", "I1", []edit{{walk, `kept.From, kept.Pull, kept.Version = mark.From, mark.Pull, mark.Version`, `kept.From, kept.Pull, kept.Version, kept.TTL = mark.From, mark.Pull, mark.Version, mark.TTL`}}},
		{"marks that end when an author leaves pull", "I1 I7", []edit{{walk, `mark.TTL = mode.At.Add(lives.Longest() + markSlack)`, `mark.TTL = mode.At.Add(0*lives.Longest() + time.Minute)`}}},
		{"backfill that does not look at the mode", "I1 I5 I11", []edit{{backfill, `if mode.State == schema.ModeSwitching || mode.State == schema.ModePull {`, `if mode.State == "" {`}}},
		{"older posts pulled that come late", "I1", []edit{{"internal/schema/users.go", `return m.State == ModePull && post >= m.Since`, `return m.State == ModePull`}}},
		{"refill that skips a post", "I1 I7", []edit{{home, `before = looked[len(looked)-1].Post`, `before = refs.Items[len(refs.Items)-1].Post`}}},
		{"answer of a shared read that began before the request", "I1 I2", []edit{
			{shared, `s.running, s.waiting = t, nil`, `s.running = t`},
			{shared, "	s.running = nil\n", "	s.running = nil\n	if s.waiting == t {\n		s.waiting = nil\n	}\n"},
		}},
		{"posts shared for two seconds", "I1 I7", []edit{{heads, `now.Sub(it.at) >= h.age`, `now.Sub(it.at) >= 2*h.age`}}},
		{"page with a cursor made of shared posts", "I7", []edit{{lists, `h.cfg.HeadAge > 0 && begins && last == ""`, `h.cfg.HeadAge > 0 && (begins || last == "") && last == ""`}}},
		{"deleted post shown because it was shared", "I2", []edit{
			{heads, `	if end < want && it.posts.Cut > oldest {`, "	for i := range part.Items {\n\t\tpart.Items[i].LikeShards += 1000\n\t}\n	if end < want && it.posts.Cut > oldest {"},
			{items, "if !there {", "if !there && r.LikeShards >= 1000 {\n\t\t\tread = access.OwnPost(schema.Post{ID: r.Post, Author: r.Author})\n\t\t} else if !there {"},
		}},
		// The next bugs are about live homes.
		{"stream that goes on behind its newest post", "I7", []edit{{arrivals, `floor: posts[0], posts: posts[1:],`, `floor: posts[len(posts)-1],`}}},
		{"like counts of an author who was unfollowed", "I2", []edit{{"internal/feed/home/likechanges.go", `if h.access.Now().Sub(shownAt) > refsAge {`, `if h.access.Now().Sub(shownAt) > refsAge && false {`}}},
		{"position without the newest post", "I7", []edit{{arrivals, `for _, post := range v.posts {`, `for _, post := range v.posts[:max(0, len(v.posts)-1)] {`}}},
		{"no slow look at a live home", "I7", []edit{{agenda, `at := a.slowAt`, `at := a.likesAt`}, {agenda, `w.home = !a.slowAt.After(now)`, `w.home = false`}}},
		{"hint dropped before its look", "I7", []edit{{agenda, `w.home = w.home || len(h.due) > 0 && !h.due[0].After(now)`, `if len(h.due) > 0 && !h.due[0].After(now) { w.home, h.due = true, nil }`}}},
		{"look that forgets the window when it was hinted", "I7", []edit{{hub, `	for items, err := range hm.hub.cfg.Homes.Arrivals(`, `		hm.agenda.mu.Lock()
		hinted := len(hm.agenda.hints) > 0
		hm.agenda.mu.Unlock()
		if hinted {
			seen, err := hm.hub.cfg.Homes.HomeStreamed(ctx, hm.user, "")
			if err != nil {
				return err
			}
			hm.seen = seen
		}
		for items, err := range hm.hub.cfg.Homes.Arrivals(`}}},
		{"event made from the hint", "I2 I7", []edit{{tail, `"fanfare/internal/feed/access"`, `"fanfare/internal/feed"; "fanfare/internal/feed/access"`}, {tail, `hm.agenda.hint(post, by, first)`, `hm.agenda.hint(post, by, first)
		if err := hm.locked(h.ctx, func() error { return hm.publish([]feed.HomeItem{{Post: feed.Post{ID: post, AuthorID: user}}}) }); err != nil {
			return
		}`}}},
		{"deletion that no page hears", "I2", []edit{{"internal/live/wakes.go", `h.Deleted(post.Author, post.ID, post.Referred)`, `_ = post.ID`}, {tail, `t.hub.Deleted(change.Author, change.Post, change.Referred)`, `_ = change.Post`}}},
		{"tail that passes over deletions", "I2", []edit{{tail, `t.hub.Deleted(change.Author, change.Post, change.Referred)`, `_ = change.Post`}}},
		{"tail that passes over edits", "I2", []edit{{tail, `t.hub.Edited(change.Author, change.Post, change.Referred)`, `_ = change.Post`}}},
		{"deletion that is not in the log of changes", "I2", []edit{{deletion, `ops, err := s.noted(ops, tombstone)`, `_, err := s.noted(ops, tombstone)`}}},
		{"edit that is not in the log of changes", "I2", []edit{{edits, `s.noteEdit(ctx, byID)`, `error(nil)`}}},
		{"tail that was away and sends no stale", "I2", []edit{{tail, ` || now.Sub(t.good) > tailMost {`, ` {`}}},
		{"tail that passes over removals", "I2", []edit{{tail, `t.hub.Removed(removal.User)`, `_ = removal.User`}}},
		{"removal that no tail can read", "I2", []edit{{life, `removal.NewItem(id.Floor(removal.At))`, `removal.Item()`}}},
		{"look that takes old references for fresh ones", "I2", []edit{{arrivals, `now.Sub(began) > refsAge`, `began.IsZero()`}}},
		{"stream that takes a home by pull for empty", "I7", []edit{{"internal/feed/home/source.go", `if err != nil || !byPull {`, `if err != nil || !byPull || s.of.Up {`}}},
		// The next bugs are about away readers.
		{"fan-out that reckons with its own active days", "I1 I5", []edit{{write, `!schema.Pushed(&edge, p.day)`, `!schema.Pushed(&edge, p.day+14-schema.Day(w.cfg.ActiveDays))`}}},
		{"home that looks at no presence if the feature is off", "I1 I6", []edit{{presence, `case p == nil:`, `case p == nil || h.access.ActiveDays == 0:`}}},
		{"skip by the clock", "I1", []edit{{worker, `day: schema.DayOf(at)`, `day: schema.DayOf(w.cfg.Now())`}}},
		{"return that reads posts before it raises edges", "I1", []edit{
			{rebuild, "	followees, err := w.raise(ctx, e.UserID, until)\n\tif err != nil {\n\t\treturn err\n\t}\n\tmost := w.cfg.ReturnPosts(followees)", "	most := w.cfg.ReturnPosts(0)"},
			{rebuild, "\tif err := w.writeMissed(", "\tif _, err := w.raise(ctx, e.UserID, until); err != nil {\n\t\treturn err\n\t}\n\tif err := w.writeMissed("},
		}},
		{"home read by push while its return begins", "I1 I7", []edit{{presence, "h.beginReturn(ctx, *p)\n\t\treturn true", "h.beginReturn(ctx, *p)\n\t\treturn false"}}},
		{"refresh that writes the presence first", "I1", []edit{{rebuild, "\tif _, err := w.raise(ctx, e.UserID, until); err != nil {\n\t\treturn err\n\t}\n\t// If the refresh",
			"\tif _, err := w.cfg.Store.Update(ctx, table.UpdateInput{Key: schema.PresenceKey(e.UserID), Set: []table.Attr{{Name: schema.AttrUntil, Value: table.N(int64(until))}}}); err != nil {\n\t\treturn err\n\t}\n\tif _, err := w.raise(ctx, e.UserID, until); err != nil {\n\t\treturn err\n\t}\n\t// If the refresh"}}},
		{"edge raised that does not exist", "I4", []edit{{rebuild, `If: table.All{table.Exists{}, table.Any{`, `If: table.All{table.Any{`}}},
		{"edge lowered by a slow worker", "I1", []edit{{rebuild, `table.Less{Name: schema.AttrUntil, Value: day}}`, `table.Exists{}}`}}},
		{"refresh that ends too late", "I1", []edit{{rebuild, `if schema.DayOf(w.cfg.Now()) >= p.Until {`, `if p.Until < 0 {`}}},
		{"return that sets another day than it raised to", "I1", []edit{{rebuild, "int64(until))},\n\t\t\t{Name: schema.AttrAsOf", "int64(schema.DayOf(w.cfg.Now())+schema.DaysAhead(w.cfg.ActiveDays)))},\n\t\t\t{Name: schema.AttrAsOf"}}},
		{"TTL of homes that is in force at once", "I1", []edit{{lives, `changeAhead = 24 * time.Hour`, `changeAhead = time.Second`}}},
		{"longer TTL for posts that have left", "I1", []edit{{lives, `if first || l[i].TTL < shortest {`, `if first {`}}},
		{"longer TTL for posts of before", "I1", []edit{{lives, `if l[i].From.After(made) {`, `if l[i].From.After(made) && i < len(l)-1 {`}}},
		{"shorter TTL for later posts only", "I1 audit", []edit{{lives, `if i > 0 && l[i].From.After(now) {`, `if i > 0 && (l[i].From.After(now) || l[i].TTL < l[0].TTL) {`}}},
		{"entries by the TTL of the last decision", "I1 I6", []edit{{worker, `ttl := at.Add(lives.Written(at))`, `ttl := at.Add(lives[len(lives)-1].TTL)`}}},
		{"homes by the last decision", "I1 I7", []edit{{reads, `return id.Floor(lives.Oldest(a.Now())), err`, `return id.Floor(lives[max(0, len(lives)-1):].Oldest(a.Now())), err`}}},
		{"second absence that forgets the gap", "I1", []edit{{presence, `if oldest, err := h.access.OldestShown(ctx); err != nil || p.Hi > oldest {`, `if p.Hi == "~" {`}}},
		{"return that forgets the gap", "I1", []edit{{rebuild, `if len(missed) < most {`, `if len(missed) <= most {`}}},
		{"page in a gap read by push", "I1", []edit{{timeline, `if inGap(`, `if p.homes == nil && inGap(`}}},
		{"edge with a day beside no presence", "I1", []edit{{follows, "\tif enrols {\n\t\tfirst", "\tif enrols && s == nil {\n\t\tfirst"}}},
		{"raise that is not noted", "I1", []edit{{rebuild, `table.Less{Name: schema.AttrUptoDay, Value: day}}`, `table.Less{Name: schema.AttrUptoDay, Value: table.N(0)}}`}}},
		{"follow that heeds no raise", "I1", []edit{
			{follows, `raised := table.Any{table.AttrAbsent`, `raised := table.Any{table.Exists{}, table.Absent{}, table.AttrAbsent`},
			{follows, `return max(upto, schema`, `return max(0, schema`},
		}},
		{"return that is asked for only once", "I6", []edit{{presence, `h.reminders.allow("return of "+viewer))`, `false)`}}},
		{"comments and likes purged of a post that lives", "I3 I7", []edit{{"internal/fanout/purge.go", `if err != nil || !ref.Deleted {`, `if err != nil {`}}},
		{"like that was taken back listed among the likers", "I3", []edit{{likes, `likerOf(like), like.Kind != "" && (kind`, `likerOf(like), (kind`}}},
		{"stored action of a like read with eventual consistency", "I3", []edit{{likes, `schema.LikeKey(post, user, shards), true)`, `schema.LikeKey(post, user, shards), false)`}}},
		{"like that came back left out of the index", "I3", []edit{{like, `w.stamp, w.cfg.IndexLikes`, `w.stamp, w.cfg.IndexLikes && a.old == nil`}}},
		{"home that shows one like too many", "I3", []edit{{items, `item.LikeCount, item.RepostCount = count.Shown(), `, `item.LikeCount, item.RepostCount = count.Shown()+1, `}}},
		{"home that looks for the viewer's like in the first shard", "I3", []edit{{items, `schema.LikeKey(r.Post, viewer, r.LikeShards)]`, `schema.LikeKey(r.Post, viewer, 1)]`}}},
		{"range of time with its end", "I5", []edit{{deletion, `high = id.Floor(ceilMilli(in.Until))`, `high = id.Floor(ceilMilli(in.Until).Add(time.Millisecond))`}}},
		{"edit that writes a deleted post anew", "I2 I4", []edit{{edits, `If:        append(table.All{table.Exists{}}, remains...),`, ``}}},
		{"backfill that ends the mark of a later follow", "I1 I2", []edit{{backfill, `If: unchanged(mark),`, `If: table.Exists{},`}}},
		{"late transaction that brings a deleted post back", "I2", []edit{{publish, `Item: byID.Item(), If: table.Absent{}`, `Item: byID.Item()`}}},
		{"ledger entries of lost windows pruned", "I3", []edit{{ledger, `end.ended && !end.lost[w.post] && time.Since`, `end.ended && time.Since`}}},
		{"unlike of a counted like expires", "I3", []edit{{like, `if next.Kind == "" && next.Base == "" {`, `if next.Kind == "" {`}}},
		{"walk not sent again by a post that finds it unfinished", "I6", []edit{{mode, `case mode.State == schema.ModePush || mode.State == schema.ModePull:`, `default:`}}},
		{"friend skipped by a leap", "I4", []edit{{"internal/feed/friends.go", `low = next[1].Other`, `low = justAfter(next[1].Other)`}}},
		{"chunk that counts its away readers below zero", "I1", []edit{{chunk, `c.Skipped += skipped`, `c.Skipped -= skipped`}}},
		{"unlike that never expires", "I3", []edit{{like, `next.TTL = ttl`, `_ = ttl`}}},
		{"entry that outlives the timeline", "I1", []edit{{worker, `schema.EntryAttrs(of.Until(ttl), of.LikeShards)`, `schema.EntryAttrs(of.Until(ttl.Add(time.Hour)), of.LikeShards)`}}},
		{"delivery record that ends with the entries", "I6", []edit{{worker, `recordTTL: ttl.Add(schema.DeliveryKept),`, `recordTTL: ttl,`}}},
		{"mark that ends with its merging", "I1", []edit{{backfill, `ttl := until.Add(markSlack)`, `ttl := until`}}},
		{"fence at the first receive", "I3", []edit{{ledger, `case a.receives < w.cfg.FenceAfter && !w.inLastHour(a):`, `case a.receives < 0:`}}},
		{"ledger pruned as soon as its notes are read", "I3", []edit{{ledger, `return end.ended && !end.lost[w.post] && time.Since(end.at) >= settled`, `return end.ended && !end.lost[w.post]`}}},
		{"prune that saves no unit", "I11", []edit{{ledger, `if table.WriteUnits(size) >= table.WriteUnits(table.Size(count)) {`, `if len(names) == 0 {`}}},
		{"window that says nothing of its lag", "I9", []edit{{window, `out.Lag = time.Since(w.openedAt)`, ``}}},
		{"window twice as long", "I8", []edit{{collect, `w.openedAt.Add(c.cfg.Window)`, `w.openedAt.Add(2 * c.cfg.Window)`}}},
		{"likes written one at a time", "I9", []edit{{"internal/likeagg/pool.go", `for range p.places {`, `for range 1 {`}}},
		{"delivery that says nothing of the away readers", "I9", []edit{{write, `w.cfg.Skipped(int(skipped))`, ``}}},
		{"author whose mode changes at the limit", "I6 I11", []edit{{mode, `followers > limit:`, `followers >= limit:`}}},
		{"mode that changes without a rest", "I6 I11", []edit{{mode, `!now.Before(mode.At.Add(restTime))`, `!now.Before(mode.At)`}}},
		{"pulled mark that stays after the pull", "I11", []edit{{walk, `mark.TTL = mode.At.Add(lives.Longest() + markSlack)`, `_ = lives`}}},
		{"walk whose messages do not name it", "I6 I8 I11", []edit{{walk, `AuthorID: e.AuthorID, Walker: walker})`, `AuthorID: e.AuthorID})`}}},
		{"marks written one at a time", "I9", []edit{{walk, `walkWriters = 16`, `walkWriters = 1`}}},
		{"purge that leaves a shard of likes", "I11", []edit{{"internal/fanout/purge.go", `for shard := range ref.LikeShards {`, `for shard := range ref.LikeShards - 1 {`}}},
		{"purge whose end is not noted", "I11", []edit{{"internal/fanout/purge.go", `if ref.Purged {`, `if !ref.Purged {`}}},
		{"like count of a purged post that stays", "I11", []edit{{"internal/fanout/purge.go", `If:  table.Exists{},`, `If:  table.Absent{},`}}},
		{"summary that never moves", "I11", []edit{{"internal/fanout/summary.go", `if err != nil || !done {`, `if err != nil || !done || sum.Total > 0 {`}}},
		{"summary that counts a chunk twice", "I6", []edit{{"internal/fanout/summary.go", `Value: table.N(sum.Total)}`, `Value: table.N(sum.Total + 1)}`}}},
		{"reader never enrolled", "I11", []edit{{rebuild, `case p == nil && w.cfg.ActiveDays == 0,`, `case p == nil,`}}},
		{"removal that removes nothing", "I6 I11", []edit{{removal, `still, err := w.removeEntries(ctx, e, entries)`, `still, err := w.removeEntries(ctx, e, nil)`}}},
		{"event of a delivery before its last chunk", "I6", []edit{{events, `if err != nil || !chain.Ended || chain.Done < chain.Total {`, `if err != nil {`}}},
		{"event of a delivery sent by its first message only", "I6", []edit{{worker, `return delivery{e.PostID, e.RequestID}, w.chunk(ctx, e)`, `return nothing{}, w.chunk(ctx, e)`}}},
		{"event of a delivery that a plan finds done not sent", "I6", []edit{{worker, `return delivery{e.PostID, e.RequestID}, w.plan(ctx, e)`, `return nothing{}, w.plan(ctx, e)`}}},
		{"likes acked but for the first if their events are not sent", "I6", []edit{{"internal/likeagg/events.go", `for _, a := range told {`, `for _, a := range told[:1] {`}}},
		{"event of a like that an earlier attempt counted left out", "I6", []edit{{"internal/likeagg/events.go", `[]*schema.Like{a.stamped, a.old}`, `[]*schema.Like{a.stamped}`}}},
		{"event of a follow with the id of its message", "I6", []edit{{events, `out.EventID, out.MarkVersion = f.FollowID, f.FollowID`, ``}}},
		{"follow told again by a home that asks for its backfill", "I6", []edit{{timeline, `MarkVersion: m.Version, FollowID: m.FollowID}`, `MarkVersion: m.Version, FollowID: m.Version}`}}},
		{"writes that stay narrow after a shortage", "I9", []edit{{write, `w.writers.raise()`, ``}}},
		{"user forgotten without the last look", "I8 I12", []edit{{"internal/fanout/forget.go", `case rest > 0:`, `case rest > forgetLast:`}}},
		{"byline replaced by an older one", "I5", []edit{{bylines, `If: table.Less{Name: schema.AttrBylineV, Value: table.N(b.V)},`, `If: table.Exists{},`}, {bylines, `p.Byline.V >= b.V`, `p.Byline.V == b.V`}}},
		{"byline of a new post not compared with the profile", "I5", []edit{{posts, `if compare && profile != nil`, `if !compare && profile != nil`}}},
		{"change of a name sent after it is made", "I5", []edit{
			{users, `if err := s.access.Publish(ctx, queue.TopicBackfills, &messages.ProfileChanged{UserID: profile.User, V: profile.V}); err != nil {`, `if err != nil {`},
			{users, `made := userOf(profile, counts)`, `if err := s.access.Publish(ctx, queue.TopicBackfills, &messages.ProfileChanged{UserID: user, V: profile.V}); err != nil {
		return User{}, err
	}
	made := userOf(profile, counts)`},
		}},
		{"change of a name not waited for", "I5", []edit{{bylines, `profile.V < e.V && now.Sub(asked) <`, `profile.V < 0 && now.Sub(asked) <`}}},
		{"profile replaced whatever its version", "I5 I11", []edit{{users, `return table.Equal{Name: schema.AttrBylineV, Value: table.N(v)}`, `return table.Exists{}`}}},
		{"change of a name that reaches the last minutes only", "I5", []edit{{bylines, `-2 * schema.BylineShown`, `-schema.BylineShown / 144`}}},
		{"change of a name that ends after its first pages", "I5", []edit{{bylines, `if last == "" {`, `if last == "" || e != nil {`}}},
		{"worker that changes the event that it handles", "I5", []edit{{
			worker, `living, err := w.postCreated(ctx, e)`, `e.RequestID += "!"; living, err := w.postCreated(ctx, e)`,
		}}},
		// The next bugs are about audits and repairs.
		{"audit that owes the posts below a follow's first", "audit", []edit{{entries, `p.plan.Post < listed.Str(schema.AttrFrom)`, `"~" < listed.Str(schema.AttrFrom)`}, {entries, `m.Hides(p.plan.Post) || `, ``}}},
		{"audit that owes the posts of a backfill that has not ended", "audit", []edit{{entries, ` || m.Kind == schema.MarkBackfill && m.Until.IsZero()`, ``}}},
		{"audit that owes the posts of a pulled author", "audit", []edit{{entries, ` || m.Pulls(p.plan.Post)`, ``}}},
		{"audit that owes entries where followers were skipped", "audit", []edit{{entries, ` || chunk.Skipped > 0`, ``}}},
		{"audit that takes a stale reading for a finding", "audit", []edit{{"internal/ops/audit/audit.go", `return err == nil, r.spend(ctx, res.Units, err)`, `return true, r.spend(ctx, res.Units, nil)`}, {"internal/ops/audit/audit.go", `!cancelled.Retryable() {
			return false, err`, `!cancelled.Retryable() {
			return true, err`}}},
		{"like count judged by a ledger that changed", "audit", []edit{{tally, `if !sameItem(before, found[key]) {`, `if found == nil {`}}},
		{"like that its aggregator is about to count taken for one that nobody counts", "audit", []edit{{tally, ` || !r.abandoned(like)`, ``}}},
		{"likes left open by a restore passed by", "I3", []edit{{tally, `restored.After(last)`, `restored.Before(last)`}}},
		{"removal taken for the loss of a profile", "audit", []edit{{counts, `if _, removed := items[note]; removed {`, `if _, removed := items[note]; removed && user == "" {`}, {counts, `check(note, table.Absent{}), check(held`, `check(held`}}},
		{"repair of a follow over a block", "I4 audit", []edit{{mend, `_, blocked := found[block]`, `_, blocked := found[table.Key{}]`}, {mend, `			table.TransactOp{Check: &table.CheckInput{Key: block, If: table.Absent{}}},
`, ``}}},
		{"repair of a follow without its users", "audit", []edit{{mend, `hasProfile(follower), hasProfile(author), `, ``}}},
		{"repair that tells others of a follow", "I6", []edit{{mend, `Kind: schema.MarkBackfill, From: from, Version: version}`, `Kind: schema.MarkBackfill, From: from, Version: version, FollowID: version}`}}},
		{"removal asked for after the profile went", "I12", []edit{
			{"internal/feed/removal/ask.go", `if err := r.access.PublishAs(ctx, queue.TopicBackfills, e, event); err != nil {`,
				`if _, err := r.feed.EndLife(ctx, user, event, now); err != nil { return "", err }
	if err := r.access.PublishAs(ctx, queue.TopicBackfills, e, event); err != nil {`},
		}},
		{"author remembered by a read from before a forget", "I12", []edit{{"internal/feed/authors.go", `read.shards > 0 && read.generation == a.lives.Of(author)`, `read.shards > 0`}}},
		{"deletion of a post that is not written yet leaves no tombstone", "I2", []edit{{deletion, `	case comes:
`, `	case comes && user == "":
`}}},
		{"tombstone without an answer of the table taken for a written one", "I2", []edit{{deletion, `failed != nil {
			return changed, failed`, `changed {
			return changed, failed`}}},
		{"author waits for ever for a post that is never written", "I8", []edit{{hour, `return !now.Before(post.until) || post.until.Sub(now) > unwrittenFor`, `return false`}}},
		{"take-backs sent again at a fixed pace", "I11", []edit{{"internal/feed/removal/takenback.go", `last.walks++`, `last.walks = 1`}}},
		{"mark of a new life below its after", "I12 I14", []edit{
			{"internal/notify/write.go", `return max(now.after, now.notice.Target)`, `return now.after`},
			{"internal/feed/notices/mark.go", `if place <= after {`, `if place < "" {`},
		}},
		{"profile removed without its note", "I12", []edit{{life, `	return removal, s.access`, `	if now.Profile != nil { ops = ops[1:] }
	return removal, s.access`}}},
		{"old removal that takes a new profile", "I12 stuck", []edit{
			{forget, `return p != nil && p.After < event`, `return p != nil`},
			{forget, `overtaken = event < removal.Event`, `overtaken = false`},
			{life, `table.Equal{Name: schema.AttrEvent, Value: table.S(event)},
	}}}}`, `table.Exists{},
	}}}}`},
		}},
		{"new life that begins with the event of the removal", "I12 I11", []edit{
			{life, `profile.After, profile.Former = after, *note`, `profile.After, profile.Former = note.Event, *note; _ = after`},
		}},
		{"new life without a gap above the clock", "I12", []edit{{life, `id.Floor(latest.Add(LifeGap))`, `max(note.Event, id.Floor(latest))`}}},
		{"repeat that trusts the record of a former life", "I12", []edit{{life, `return after != "" && at.UnixMilli() <= access.TimeOf(after).UnixMilli()`, `return after == "never"`}}},
		{"idempotency key of a former life", "I12", []edit{{"internal/feed/idempotency.go", `if d.after != "" {`, `if d.after == "never" {`}}},
		{"times of a new life by the clock", "I12", []edit{{life, `	if isFormer(at, after) {
		return`, `	if after == "never" {
		return`}}},
		{"sweep that spares what is above the event", "I12", []edit{{sweep, `return id.Max, err`, `return min(id.Max, sw.event), err`}}},
		{"sweep that takes a new life", "I12", []edit{{sweep, `return max(it.Str(schema.AttrAfter), sw.event), nil`, `return id.Max, nil`}}},
		{"marker lowered", "I5", []edit{{marker, `If: forward})`, `If: nil})`}}},
		{"marker that is behind its answer", "I5", []edit{{marker, `m, err = schema.ParseMarker(it)
			return`, `_, err = schema.ParseMarker(it)
			return`}}},
		{"marker kept after removal", "I12", []edit{{forget, `, sw.own(sw.r.feed.OwnMarkers)`, ``}}},
		{"marker of a former life that counts", "I12", []edit{{marker, `if after != "" {`, `if after == "never" {`}}},
		{"bookmark kept after removal", "I12", []edit{{forget, `, sw.own(sw.r.feed.OwnBookmarks)`, ``}}},
		{"bookmark of a new life that leaves the former place", "I4 I12", []edit{{bookmark, `ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{Key: schema.BookmarkKey(user, stored.V)}})`, `_ = ops`}}},
		{"end of a bookmark that leaves its place", "I4", []edit{{bookmark, `		{Delete: &table.DeleteInput{Key: schema.BookmarkKey(b.User, b.V)}},
`, ``}}},
		{"bookmarks of deleted posts shown", "I2 I15", []edit{{bookmark, `shown, err := ofLiving(items)`, `shown, err := ofLiving(items)
		if err == nil {
			shown, err = page.Each(func(it table.Item) (Bookmarked, bool, error) {
				b, err := schema.ParseBookmark(it)
				return bookmarkedOf(b), true, err
			})(items)
		}`}}},
		{"bookmarks shown over a block", "I2", []edit{{bookmark, `return blocked[author(b)] }), err`, `return blocked[b.PostID] }), err`}}},
		{"edit that leaves nothing to show", "I5", []edit{{edits, `if !removes || gives {`, `if !removes || gives || true {`}}},
		{"edit of images without an effect", "I5", []edit{{edits, `{schema.AttrImages, images}`, `{schema.AttrImages, map[bool]*string{true: images}[images == nil]}`}}},
		{"images not stored", "I5", []edit{{postItem, "\tc.images(&p.Images)\n", ""}}},
		{"first image stored alone", "I5", []edit{{"internal/schema/codec.go", `messages.ImagesText(*field)`, `messages.ImagesText((*field)[:min(1, len(*field))])`}}},
		{"post of a worker without its images", "I5", []edit{{publish, `post := schema.Post{ID: e.PostID, Author: e.AuthorID, Content: in.Content, Reference: e.Reference, LikeShards: e.LikeShards}`, `in.Images = nil
	post := schema.Post{ID: e.PostID, Author: e.AuthorID, Content: in.Content, Reference: e.Reference, LikeShards: e.LikeShards}`}}},
		{"bookmark of another user in a home", "I5", []edit{{bookmark, `keptThings{schema.BookmarksPK(user)`, `keptThings{schema.BookmarksPK(refs[0].Author)`}}},
		{"bookmark of the newest post of a page not read", "I5", []edit{{"internal/feed/own.go", `q.Descending, q.PageSize = true`, `q.High = schema.PostSK(slices.MinFunc(refs, older).Post)
	q.Descending, q.PageSize = true`}}},
		{"bookmarks of a filled up home not read", "I5", []edit{{"internal/feed/items.go", `kept, err = s.keptFor(ctx, &page.Budget{}, viewer, shown)`, `_ = kept`}}},
		{"comments of a home not counted", "I4", []edit{{"internal/feed/items.go", `CommentCount: max(0, post.Comments)`, `CommentCount: 0`}}},
		{"bookmarks read with eventual consistency", "I5", []edit{{bookmark, `Descending: true, Consistent: true}`, `Descending: true}`}}},
		{"sweep that takes a renewed mute", "I12", []edit{{"internal/feed/mutes.go", `If: table.Any{table.Absent{}, sameMute(m)}`, `If: nil`}}},
		{"like taken back by an id that the next life reaches", "I12", []edit{{forget, `version, err := sw.r.access.IDs.Before(sw.event)`, `version, err := sw.r.access.IDs.After(id.Floor(sw.r.access.Now().Add(2 * feed.LifeGap)))`}}},
		{"like that is above its removal not taken back", "I12 stuck", []edit{{forget, `if err == nil && version <= like {`, `if err == nil && version == like {`}}},
		{"post of a former life written out of a backlog", "I12", []edit{{publish, `if schema.OfFormerLife(profile, schema.NoteOf(e.AuthorID, items), e.PostID) {`, `if schema.OfFormerLife(profile, schema.NoteOf(e.AuthorID, items), e.PostID) && e == nil {`}}},
		{"like of a former life counted out of a backlog", "I12", []edit{{"internal/likeagg/life.go", `lateLike = 50 * time.Minute`, `lateLike = 5000 * time.Minute`}}},
		{"follow told by an id of the clock", "I6", []edit{{follows, `MarkVersion: version, FollowID: mark.FollowID,`, `MarkVersion: version, FollowID: id.Floor(s.access.Now()),`}}},
		{"purge asked for by each call that deletes a post", "I11", []edit{{deletion, `return false, fault.NotFoundf("post %s was deleted", post)
	}
	return false, fault.Wrap("table", err)
}

// askForPurge`, `s.AskToPurge(ctx, user, post)
		return false, fault.NotFoundf("post %s was deleted", post)
	}
	return false, fault.Wrap("table", err)
}

// askForPurge`}}},
		{"purge asked for by a deletion that was refused", "I11", []edit{{deletion, `if _, cancelled := errors.AsType[*table.CancelledError](err); !cancelled {`, `if cancelled, _ := errors.AsType[*table.CancelledError](err); cancelled == nil || err != nil {`}}},
		{"purge not asked for after a deletion", "I11", []edit{{deletion, `if _, cancelled := errors.AsType[*table.CancelledError](err); !cancelled {`, `if _, cancelled := errors.AsType[*table.CancelledError](err); !cancelled && err != nil {`}}},
		{"purge asked for twice", "I11", []edit{{deletion, `		s.askToPurge(ctx, &messages.PostDeleted{PostID: tombstone.ID, AuthorID: tombstone.Author, Mentions: last.Mentions})
`, `		s.askToPurge(ctx, &messages.PostDeleted{PostID: tombstone.ID, AuthorID: tombstone.Author, Mentions: last.Mentions})
		s.AskToPurge(ctx, tombstone.Author, tombstone.ID)
`}}},
		{"take-down without its reason", "I5", []edit{{"internal/schema/posts.go", `if down := r.TakenDown; down != nil {`, `if down := r.TakenDown; down != nil && !r.Deleted {`}}},
		{"take-down answered with another reason", "I5", []edit{{takeDown, `	return TakeDown(*post.TakenDown), nil`, `	return TakeDown{Reason: "the rules", By: post.TakenDown.By, At: post.TakenDown.At}, nil`}}},
		{"take-down not told of by a message that finds its purge done", "I6", []edit{{events, `if w.cfg.Events == nil || down == nil {`, `if w.cfg.Events == nil || down == nil || d.post.Purged {`}}},
		{"kept block ended without a look at the note", "I5", []edit{{"internal/feed/kept.go", `range []table.Key{schema.ProfileKey(user), schema.ForgottenKey(user)} {`, `range []table.Key{schema.ProfileKey(user)} {`}}},
		{"kept block ended in a transaction that does not check the note", "I5", []edit{{"internal/feed/kept.go", `		checks = append(checks, table`, `		if key == schema.ForgottenKey(user) {
			continue
		}
		checks = append(checks, table`}}},
		{"kept block ended in a transaction that does not check the profile", "I5", []edit{{"internal/feed/kept.go", `		checks = append(checks, table`, `		if key == schema.ProfileKey(user) {
			continue
		}
		checks = append(checks, table`}}},
		{"units counted again when a key is repeated", "I11", []edit{{publish, `		if found != nil {
			return *found, nil
		}
		d.post, d.use.hour`, `		if found != nil {
			_ = s.countAlone(ctx, d.use)
			return *found, nil
		}
		d.post, d.use.hour`}}},
		{"key looked up after the refusal", "I11", []edit{{publish, `if refused != nil && key == "" {`, `if refused != nil {`}}},
		{"key bound by a refused call", "I11", []edit{
			{"internal/feed/idempotency.go", `	if refused != nil {
		old, err`, `	if refused != nil && key == "" {
		old, err`},
			{"internal/feed/idempotency.go", `err == nil {
		return p, nil, nil
	} else`, `err == nil {
		return p, nil, refused
	} else`},
		}},
		{"units counted beside the transaction", "I11", []edit{{publish, `	as.use.countTo(count)
`, `	_ = s.countAlone(ctx, as.use)
`}}},
		{"units of a lost post counted by nobody", "I11", []edit{{publish, `		u = s.useOfPost(post, s.costOfPost(post, followers, false), items)
`, `		_ = followers
`}}},
		{"units of a lost post counted in the hour of the worker", "I11", []edit{{publish, `u := s.useOf(p.Author, access.TimeOf(p.ID), of,`, `u := s.useOf(p.Author, s.access.Now(), of,`}}},
		{"units of an unfollow not counted", "I11", []edit{{unfollow, `schema.AttrFollowing, -1)
	now.use.countTo(count)`, `schema.AttrFollowing, -1)`}}},
		{"hours never removed", "I9", []edit{{hour, `	update.Remove = append(update.Remove, u.hour.Former(u.counts)...)
`, ``}}},
		{"the hour before removed", "I11", []edit{{"internal/schema/hours.go", `Hour(of) < h-1 {`, `Hour(of) < h {`}}},
		{"no call refused", "I11", []edit{{hour, `	if u.counts.Int(u.hour.AttrUnits()) < s.cfg.UserUnits {`, `	if u.counts.Int(u.hour.AttrUnits()) >= 0 {`}}},
		{"first posts of an hour refused", "I11", []edit{{hour, `u.counts.Int(u.hour.AttrMade()) < alwaysPosts {`, `u.counts.Int(u.hour.AttrMade()) < alwaysPosts-2 {`}}},
		{"no last look", "I12 I8", []edit{{last, `case rest > 0:`, `case rest > 2*forgetLast:`}}},
		{"end without exp on the post by id", "I4 I15", []edit{{postItem, `Mentions: len(p.Mentions) > 0, End: p.ExpiresAt}`, `Mentions: len(p.Mentions) > 0}`}}},
		{"post without the ttl of its end", "I15", []edit{{postItem, `	c.ttl(&p.ExpiresAt)
`, `	if c.reading {
		c.ttl(&p.ExpiresAt)
	}
`}}},
		{"post with an end counted", "I4", []edit{{publish, `if p.ExpiresAt.IsZero() { // a post with an end is never counted (I15), because its end does not lower the count`, `if true {`}}},
		{"deletion of a post with an end lowers the count", "I4", []edit{{deletion, `if byID.End.IsZero() { // a post with an end was never counted`, `if true {`}}},
		{"entry that outlives the end of its post", "I15 I1", []edit{{worker, `schema.EntryAttrs(of.Until(ttl), of.LikeShards)`, `schema.EntryAttrs(ttl, of.LikeShards)`}}},
		{"own entry that outlives the end of its post", "I15 I1", []edit{{publish, `byID.Until(at.Add(lives.Written(at)))`, `at.Add(lives.Written(at))`}}},
		{"comment that outlives the end of its post", "I15", []edit{{comments, `Mentions: in.Mentions, TTL: byID.End}`, `Mentions: in.Mentions}`}}},
		{"like of a post with an end without its ttl", "I15", []edit{{like, `next.TTL = w.expiry`, `_ = w.expiry`}}},
		{"like count of a post with an end without its ttl", "I15", []edit{{window, `if !w.expiry.IsZero() {`, `if false {`}}},
		{"comments and likes of an ended post shown", "I15", []edit{{living, `if err == nil && seen.ref.Gone(a.Now()) {`, `if err == nil && seen.ref.Deleted {`}}},
		{"ended posts in the lists of a user", "I15", []edit{{living, `return seen.ref.Gone(a.Now()) })`, `return seen.ref.Deleted })`}}},
		{"audit that takes an ended post for a lost one", "audit", []edit{{"internal/ops/audit/posts.go", `if ref.Gone(r.cfg.Now().Add(clocksApart)) { // the table deletes the post and its likes one by one`, `if false {`}}},
		// The next bugs are about a clock in doubt.
		{"event with an id by a clock in doubt", "I6", []edit{{"internal/fanout/plan.go", `	if err := w.cfg.Clock.Doubt(); err != nil {
		return "", err
	}
	return w.cfg.IDs.After(floor)`, `	return w.cfg.IDs.After(floor)`}}},
		{"dead letter by a clock in doubt", "I6", []edit{{"internal/clock/clock.go", `	if inDoubt && (permanent(err)`, `	if inDoubt && err == nil && (permanent(err)`}}},
		{"unlike that expires by a clock in doubt", "I3", []edit{{like, `if ttl := w.cfg.Now().Add(likeTTL); w.cfg.Clock.Doubt() == nil {`, `if ttl := w.cfg.Now().Add(likeTTL); true {`}}},
		// The next bugs need a table that treats reads as unkindly as DynamoDB does.
		{"followees of a pulled home read with eventual consistency", "I1 I2", []edit{{"internal/feed/home/pull.go", `PK: schema.FollowingPK(viewer), Consistent: true}`, `PK: schema.FollowingPK(viewer)}`}}},
		{"notification read with eventual consistency", "I13 I14", []edit{{"internal/notify/write.go", `table.BatchGetInput{Keys: keys, Consistent: true}`, `table.BatchGetInput{Keys: keys}`}}},
		{"count judged while its transaction becomes visible", "audit I4", []edit{{counts, `!r.cfg.Local && wait > 0 {`, `r.cfg.Local && wait > 0 {`}}},
		{"lost backfill never asked for again", "I6", []edit{{timeline, `late := slices.Concat(read.late, p.homes.hiding(left))`, `late := p.homes.hiding(left)`}}},
	}
}

// TestEveryPlantedBugIsFound builds this package's tests once for each planted bug and runs seeds
// until one seed finds the bug, mostSeeds at most. The test takes minutes: make sim-planted.
func TestEveryPlantedBugIsFound(t *testing.T) {
	root := planttest.Root(t)
	for _, b := range slices.Concat(bugs(), readBugs(), repostBugs(), silentBugs(), noticeBugs(), moveBugs(), engineBugs(), archiveBugs()) {
		if *onlyBug != "" && b.name != *onlyBug {
			continue
		}
		overlay := b.overlay(t, root)
		if !*planted {
			continue // without the flag the test checks only that each bug fits the code
		}
		seed, violations, output := b.find(t, root, overlay)
		switch {
		case len(violations) == 0:
			t.Errorf("%-50s not found in %d seeds\n%s", b.name, mostSeeds, output)
		case !slices.ContainsFunc(violations, b.isBroken):
			t.Errorf("%-50s seed %d found %q, want a violation of %s", b.name, seed, violations, b.breaks)
		default:
			first := violations[slices.IndexFunc(violations, b.isBroken)]
			fmt.Printf("%-50s %-5s seed %-3d %s\n", b.name, b.breaks, seed, first)
		}
	}
}

// overlay writes the changed files and returns the compiler's overlay.
func (b bug) overlay(t *testing.T, root string) string {
	t.Helper()
	t.Logf("plant %q", b.name)
	edits := make([]planttest.Edit, len(b.edits))
	for i, e := range b.edits {
		edits[i] = planttest.Edit{File: e.file, Old: e.old, New: e.new}
	}
	return planttest.Overlay(t, root, edits)
}

var (
	// isViolation matches the text of workload.fail.
	isViolation = regexp.MustCompile(`^(I\d+|stuck|oracle|audit|archive): `)
	// isPanic matches a failed assertion, and isLabel matches the seed of its goroutine.
	isPanic = regexp.MustCompile(`(?m)^panic: (I\d+: .*?)( \[recovered.*)?$`)
	isLabel = regexp.MustCompile(`"?seed"?: ?"?(\d+)`)
)

// isBroken reports whether the bug breaks the invariant of a violation.
func (b bug) isBroken(violation string) bool {
	invariant, _, _ := strings.Cut(violation, ":")
	return slices.Contains(strings.Fields(b.breaks), invariant)
}

// find returns the first seed that finds the bug, with its violations: the violations that the oracle reports,
// or the failed assertion of the product.
func (b bug) find(t *testing.T, root, overlay string) (seed uint64, violations []string, output string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "sim.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-tags", "invariants", "-c", "-overlay", overlay, "-o", binary, "./internal/sim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return 0, nil, fmt.Sprintf("it does not build: %v\n%s", err, out)
	}
	out, failed := runSeeds(t, root, binary, append(b.args(), "-seeds", fmt.Sprint(mostSeeds), "-stop")...)
	if !failed {
		return 0, nil, ""
	}
	if panicked := isPanic.FindStringSubmatch(out); panicked != nil {
		violations = []string{panicked[1]}
		if label := isLabel.FindStringSubmatch(out); label != nil {
			seed, _ = strconv.ParseUint(label[1], 10, 64) // the seed 0 finds nothing
		}
	}
	for line := range strings.Lines(out) {
		_, rest, ok := strings.Cut(line, "sim_test.go:")
		if !ok {
			continue
		}
		_, said, _ := strings.Cut(rest, ": ")
		if seed == 0 {
			if _, err := fmt.Sscanf(said, "seed %d:", &seed); err != nil {
				seed = 0
			}
		} else if violation := strings.TrimSpace(said); isViolation.MatchString(violation) {
			violations = append(violations, violation)
		}
	}
	if len(violations) > 0 {
		b.replay(t, root, binary, seed)
	}
	return seed, violations, out
}

// runSeeds runs the simulation with a planted bug.
func runSeeds(t *testing.T, root, binary string, args ...string) (output string, failed bool) {
	t.Helper()
	run := exec.CommandContext(t.Context(), binary, append([]string{"-test.run", "^TestSeeds$", "-shrink", "0"}, args...)...)
	run.Dir = filepath.Join(root, "internal", "sim")
	out, err := run.CombinedOutput()
	_, failed = errors.AsType[*exec.ExitError](err)
	return string(out), failed
}

// replay runs the seed that found the bug twice. The traces must be equal, byte for byte, or both runs must
// end in the same failed assertion.
func (b bug) replay(t *testing.T, root, binary string, seed uint64) {
	t.Helper()
	if b.args() != nil {
		return // the goroutines of the engine may run in another order
	}
	var traces [2]string
	for i := range traces {
		out, failed := runSeeds(t, root, binary, append(b.args(), "-seeds", "1", "-from", fmt.Sprint(seed), "-trail")...)
		if !failed {
			t.Errorf("planted bug %q: seed %d found it, and does not any more", b.name, seed)
			return
		}
		if panicked := isPanic.FindString(out); panicked != "" {
			traces[i] = strings.Repeat(panicked+"\n", 100)
			continue
		}
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "--- ") && !strings.Contains(line, "CPU-second") { // these lines contain durations
				traces[i] += line
			}
		}
	}
	if traces[0] != traces[1] || strings.Count(traces[0], "\n") < 100 {
		t.Errorf("planted bug %q: two runs of seed %d wrote different traces of %d and %d bytes", b.name, seed, len(traces[0]), len(traces[1]))
	}
}
