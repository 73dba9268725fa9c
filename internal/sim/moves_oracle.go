package sim

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/ops/audit"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// tableOf is a table as the oracle of the moves reads it. The oracle finds records by their items,
// and computes homes from the items. It shares no code with the product's export or with the
// product's homes.
type tableOf struct {
	w     *World
	parts map[string][]table.Item
	users map[string]bool
}

func (w *World) tableOf(store table.Store) tableOf {
	t := tableOf{w, map[string][]table.Item{}, map[string]bool{}}
	page, err := store.Scan(context.Background(), table.ScanInput{PageSize: 1 << 20})
	if err != nil {
		w.load.fail("oracle", "%v", err)
	}
	for _, it := range page.Items {
		if table.Expired(it, time.Now()) {
			continue
		}
		t.parts[it.Key.PK] = append(t.parts[it.Key.PK], it)
		if profile, err := schema.ParseProfile(it); err == nil {
			t.users[profile.User] = true
		}
	}
	return t
}

// parsed returns the items of a partition that the function parse accepts.
func parsed[T any](items []table.Item, parse func(table.Item) (T, error)) (all []T) {
	for _, it := range items {
		if one, err := parse(it); err == nil {
			all = append(all, one)
		}
	}
	return all
}

// recordsIn returns the records of all users of a table.
func (w *World) recordsIn(store table.Store, name naming) records {
	t, all, posts := w.tableOf(store), records{}, map[string]string{}
	var refer []schema.Post
	for _, user := range sorted(t.users) {
		for _, p := range parsed(t.parts[schema.PostsPK(user)], schema.ParsePost) {
			if p.Of() != "" {
				refer = append(refer, p)
			}
			if p.RepostOf == "" && (p.ExpiresAt.IsZero() || p.ExpiresAt.After(time.Now())) {
				posts[p.ID] = name(p.ID, p.Text)
				t.postRecords(all, p, posts[p.ID], name)
			}
		}
	}
	for _, p := range refer {
		of, living := posts[p.Of()]
		made, err := id.Time(p.ID)
		switch {
		case !living || err != nil:
		case p.RepostOf != "":
			all.add(recordKey{kind: "repost", who: p.Author, post: of}, millis(made))
		case posts[p.ID] != "":
			all.add(recordKey{kind: "quote", who: p.Author, post: of, other: posts[p.ID]}, "there")
		}
	}
	for _, user := range sorted(t.users) {
		t.userRecords(all, user, posts)
	}
	return all
}

func (t tableOf) postRecords(all records, p schema.Post, post string, name naming) {
	at := func(of string) string {
		made, err := id.Time(of)
		if err != nil {
			return err.Error()
		}
		return millis(made)
	}
	all.add(recordKey{kind: "post", who: p.Author, post: post},
		fmt.Sprintf("%q %+v %q %s %v %s %s %s", p.Text, movedImages(p.Images), p.Kind, p.Data, p.Mentions, at(p.ID), millis(p.EditedAt), millis(p.ExpiresAt)))
	for _, c := range parsed(t.parts[schema.CommentsPK(p.ID)], schema.ParseComment) {
		if t.users[c.Author] {
			all.add(recordKey{kind: "comment", who: c.Author, post: post, other: name(c.ID, c.Text)}, fmt.Sprintf("%q %s %v %s", c.Text, c.Data, c.Mentions, at(c.ID)))
		}
	}
	for _, like := range t.likes(p) {
		if like.Kind != "" && t.users[like.User] {
			all.add(recordKey{kind: "like", who: like.User, post: post}, like.Kind+" "+at(like.Version))
		}
	}
}

// likes returns the likes of a post, including the likes that were taken back.
func (t tableOf) likes(p schema.Post) (all []schema.Like) {
	for shard := range p.LikeShards {
		all = append(all, parsed(t.parts[schema.LikesPK(p.ID, shard, p.LikeShards)], schema.ParseLike)...)
	}
	return all
}

func (t tableOf) userRecords(all records, user string, posts map[string]string) {
	profile := parsed(t.parts[schema.UserPK(user)], schema.ParseProfile)[0]
	all.add(recordKey{kind: "user", who: user}, fmt.Sprintf("%q %q %q %s %s", profile.Name, profile.Bio, profile.ImageURL, profile.Data, millis(profile.CreatedAt)))
	for _, edge := range parsed(t.parts[schema.FollowingPK(user)], schema.ParseEdge) {
		if t.users[edge.Other] {
			all.add(recordKey{kind: "follow", who: user, other: edge.Other}, fmt.Sprint(cmp.Or(edge.From, id.Min), millis(edge.Since), edge.Silent))
		}
	}
	for _, it := range t.parts[schema.MarksPK(user)] {
		if other, muted := schema.MutedOfSK(it.Key.SK); muted {
			all.add(recordKey{kind: "mute", who: user, other: other}, millis(schema.MuteSince(it)))
		}
	}
	for _, b := range parsed(t.parts[schema.BlocksPK(user)], schema.ParseBlock) {
		if !b.Since.IsZero() {
			all.add(recordKey{kind: "block", who: user, other: b.Other}, millis(b.Since))
		}
	}
	for _, it := range t.parts[schema.BookmarksPK(user)] {
		b, err := schema.ParseBookmark(it)
		_, listed := schema.BookmarkOfSK(it.Key.SK)
		if made, err2 := id.Time(b.V); err == nil && err2 == nil && !listed && posts[b.Post] != "" {
			all.add(recordKey{kind: "bookmark", who: user, post: posts[b.Post]}, millis(made))
		}
	}
	for _, m := range parsed(t.parts[schema.MarkersPK(user)], schema.ParseMarker) {
		all.add(recordKey{kind: "marker", who: user, other: m.Name}, fmt.Sprintf("%q %s", m.Position, millis(m.At)))
	}
}

// home returns the posts that the home of a user must show, newest first, except posts that leave
// homes soon. A post shows at its newest visible reference (I16).
func (t tableOf) home(user string) (posts []string) {
	authors := map[string]string{user: id.Min}
	for _, edge := range parsed(t.parts[schema.FollowingPK(user)], schema.ParseEdge) {
		authors[edge.Other] = edge.From
	}
	unseen := map[string]bool{}
	for _, b := range parsed(t.parts[schema.BlocksPK(user)], schema.ParseBlock) {
		unseen[b.Other] = true
	}
	for _, it := range t.parts[schema.MarksPK(user)] {
		if muted, ok := schema.MutedOfSK(it.Key.SK); ok {
			delete(authors, muted)
			unseen[muted] = true
		}
	}
	newest := map[string]string{}
	for _, author := range sorted(authors) {
		for _, p := range parsed(t.parts[schema.PostsPK(author)], schema.ParsePost) {
			of, by := cmp.Or(p.RepostOf, p.ID), cmp.Or(p.OfAuthor, author)
			sees := p.RepostOf == "" || t.item(schema.PostKey(by, of)) && (by == user || !unseen[by])
			if p.ID >= authors[author] && sees {
				newest[of] = max(newest[of], p.ID)
			}
		}
	}
	for of, post := range newest {
		if !t.leaves(post, of) {
			posts = append(posts, post)
		}
	}
	slices.Sort(posts)
	slices.Reverse(posts)
	return posts
}

// item reports whether a table has an item.
func (t tableOf) item(key table.Key) bool {
	return slices.ContainsFunc(t.parts[key.PK], func(it table.Item) bool { return it.Key == key })
}

// leaves reports whether a post, or a repost of a post, leaves homes soon, or has left them.
func (t tableOf) leaves(post, of string) bool {
	ended := t.w.moves.ends[cmp.Or(of, post)]
	return t.w.mayHaveExpired(post) || !ended.IsZero() && time.Until(ended) < clocksMost
}

// checkTable checks the homes of users and their counts by the items of a table (I1, I3, I4).
func (m *moves) checkTable(ctx context.Context, store table.Store, users []string, when string) {
	w, t := m.w, m.w.tableOf(store)
	service := newDomain(true, access.Config{
		Store: store, Publisher: noPublisher{}, IDs: id.NewSeededGenerator(time.Now, entropy(w.seed)), Now: time.Now,
		Lifetimes: w.lifetimesNow(), Reactions: kinds(), Jitter: func() float64 { return 0 }, Log: zap.NewNop(),
	}, feed.Config{LikesByUser: w.seed%2 == 0}, home.Config{})
	r := w.reader(service)
	for _, user := range users {
		if !t.users[user] {
			continue
		}
		want := t.home(user)
		for _, pull := range []bool{false, true} {
			items, err := whole(r, func(page page.Request) (page.List[feed.HomeItem], error) {
				return service.Home(ctx, user, home.Query{Pull: pull}, page)
			})
			items = slices.DeleteFunc(items, func(it feed.HomeItem) bool { return t.leaves(it.Post.ID, it.Post.RepostOf) })
			got := lines(items, func(it feed.HomeItem) string { return it.Post.ID })
			r.same("I1", fmt.Sprintf("%s the home of %s (pull %v)", when, user, pull), got, err, want)
		}
		t.checkCounts(user, when)
	}
}

// checkCounts checks the counts of a user and of the user's posts.
func (t tableOf) checkCounts(user, when string) {
	l := t.w.load
	_, counts, err := schema.ParseUser(t.parts[schema.UserPK(user)])
	want := feed.Counts{Followers: int64(len(t.parts[schema.FollowersPK(user)])), Following: int64(len(t.parts[schema.FollowingPK(user)]))}
	for _, p := range parsed(t.parts[schema.PostsPK(user)], schema.ParsePost) {
		if p.ExpiresAt.IsZero() {
			want.Posts++
		}
		if comments := len(t.parts[schema.CommentsPK(p.ID)]); p.Comments != int64(comments) {
			l.fail("I4", "%s post %s counts %d comments, there are %d", when, p.ID, p.Comments, comments)
		}
		likes, count := map[string]int64{}, schema.LikeCount{}
		for _, like := range t.likes(p) {
			if like.Kind != "" {
				likes[like.Kind]++
			}
		}
		if it := t.parts[schema.LikeCountKey(p.ID).PK]; len(it) == 1 {
			count = schema.ParseLikeCount(&it[0])
		}
		if !maps.Equal(likes, some(count.Kinds)) && !t.w.mayLackLikes(p.ID) {
			l.fail("I3", "%s post %s counts %v, and users have %v", when, p.ID, count.Kinds, likes)
		}
	}
	silent := int64(0)
	for _, edge := range parsed(t.parts[schema.FollowersPK(user)], schema.ParseEdge) {
		if edge.Silent {
			silent++
		}
	}
	if counts.Silent != silent {
		l.fail("I4", "%s %s has %d silent followers, the count is %d", when, user, silent, counts.Silent)
	}
	if is := (feed.Counts{Followers: counts.Followers, Following: counts.Following, Posts: counts.Posts}); err != nil || is != want {
		l.fail("I4", "%s %s has the counts %+v, want %+v: %v", when, user, is, want, err)
	}
}

// mayLackLikes reports whether the count of a post may lack a stored like, because the like's
// message is a dead letter.
func (w *World) mayLackLikes(post string) bool {
	return slices.ContainsFunc(w.queue(queue.TopicLikes).dead, func(d queue.DeadLetter) bool {
		like := likeOf(decoded(d.Payload))
		return like != nil && like.PostID == post
	})
}

// check checks the town after the import. The table has each record of the file once and unchanged,
// and no other record. Homes and counts are right.
func (m *moves) check(ctx context.Context) {
	got := m.w.recordsIn(m.w.store, byText)
	uncertain := func(key recordKey) bool {
		return m.touched[key] || m.gone[key.post] || key.kind == "quote" && m.gone[key.other]
	}
	for _, key := range sortedRecords(m.want) {
		if !uncertain(key) && got[key] != m.want[key] {
			m.w.load.fail("I5", "after an import the %s is %q, want %q", key, got[key], m.want[key])
		}
	}
	for _, key := range sortedRecords(got) {
		if _, wanted := m.want[key]; !wanted && !uncertain(key) && slices.Contains(townsfolk(), key.who) {
			m.w.load.fail("I5", "after an import the %s is %q, and nobody made it", key, got[key])
		}
		if strings.Contains(got[key], " and ") && slices.Contains(townsfolk(), key.who) {
			m.w.load.fail("I7", "after an import the %s is there twice: %s", key, got[key])
		}
	}
	m.checkTable(ctx, m.w.store, townsfolk(), "after an import")
}

// exportBeside is an export during traffic: the exported lines, and the records from before the
// export.
type exportBeside struct {
	out    bytes.Buffer
	before records
}

// export begins an export. The scan for users may be late, so export waits until it sees all users.
func (m *moves) export(c *command) {
	time.Sleep(2 * m.w.shape.Lag)
	m.exported = exportBeside{before: m.w.recordsIn(m.w.store, byID)}
	for _, v := range m.w.shadows.veils { // the export may read the former item
		maps.DeleteFunc(m.exported.before, func(key recordKey, _ string) bool { return strings.Contains(v.key.PK+"#", "u#"+key.who+"#") })
	}
	m.w.Fired[FaultLeap]++ // nothing answers meanwhile
	time.Sleep(clocksMost) // no record of before is ahead of the export's clock
	cfg, out := m.w.transfers(c.p.Store(), c.p.Now), &m.exported.out
	m.run(c, func(ctx context.Context) error { return transfer.Export(ctx, cfg, out) })
}

// checkExportBeside checks that an export has, exactly once, each record that existed before the
// export and stayed.
func (m *moves) checkExportBeside() {
	after, got := m.w.recordsIn(m.w.store, byID), recordsOfLines(m.exported.out.String(), byID)
	for _, key := range sortedRecords(m.exported.before) {
		if key.kind == "follow" && m.touched[key] {
			continue // a repeated import restores a follow that the user has ended
		}
		if stays := m.exported.before[key]; after[key] == stays && got[key] != stays {
			m.w.load.fail("I5", "an export beside traffic has the %s as %q, and it was %q before and after", key, got[key], stays)
		}
	}
}

// dying is a table that ends its caller after some writes.
type dying struct {
	table.Store
	left int
	kill func()
}

// dies reports whether the caller has died: the caller's later writes have no effect.
func (d *dying) dies() bool {
	if d.left--; d.left == 0 {
		d.kill()
	}
	return d.left <= 0
}

func (d *dying) Put(ctx context.Context, in table.PutInput) (res table.WriteResult, err error) {
	if d.dies() {
		return res, errCrashed
	}
	return d.Store.Put(ctx, in)
}

func (d *dying) Update(ctx context.Context, in table.UpdateInput) (res table.WriteResult, err error) {
	if d.dies() {
		return res, errCrashed
	}
	return d.Store.Update(ctx, in)
}

func (d *dying) Transact(ctx context.Context, in table.TransactInput) (res table.WriteResult, err error) {
	if d.dies() {
		return res, errCrashed
	}
	return d.Store.Transact(ctx, in)
}

func (d *dying) BatchWrite(ctx context.Context, writes []table.BatchWrite) (res table.WriteResult, err error) {
	if d.dies() {
		return res, errCrashed
	}
	return d.Store.BatchWrite(ctx, writes)
}

// checkSecondTable exports the quiet table, and imports the lines into an empty table. The import
// is killed twice and repeated. The second table shows the same homes and counts, an audit finds no
// fault in the second table, and an export of the second table has the same lines.
func (m *moves) checkSecondTable(ctx context.Context) {
	w := m.w
	time.Sleep(clocksMost) // no id is ahead any more
	m.checkImportOfBeside(ctx)
	first := m.exportOf(ctx, w.store)
	want, got := w.recordsIn(w.store, byID), recordsOfLines(first, byID)
	for _, key := range sortedRecords(want) {
		if got[key] != want[key] {
			w.load.fail("I5", "an export of a quiet table has the %s as %q, want %q", key, got[key], want[key])
		}
	}
	file := filepath.Join(m.dir, "export.jsonl")
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		w.load.fail("oracle", "%v", err)
		return
	}
	second := tabletest.NewMemory()
	// Both tables get the same lifetimes, because lifetimes are a setting, and an export contains no
	// settings.
	if _, err := second.Put(ctx, table.PutInput{Item: w.views[len(w.views)-1].Item()}); err != nil {
		w.load.fail("oracle", "%v", err)
		return
	}
	for _, writes := range []int{1 + w.rng.IntN(200), 1 + w.rng.IntN(400), 1 << 30} {
		running, kill := context.WithCancelCause(ctx)
		_, err := transfer.Import(running, w.transfers(&dying{second, writes, func() { kill(errCrashed) }}, time.Now), []string{file})
		if kill(nil); err != nil && writes == 1<<30 {
			w.load.fail("I5", "an import into an empty table fails: %s", strings.ReplaceAll(err.Error(), m.dir, ""))
			return
		}
	}
	if again := m.exportOf(ctx, second); again != first {
		w.load.fail("I5", "an export that is imported is exported as other lines: %s", firstDifference(first, again))
	}
	users := slices.Concat(townsfolk(), w.load.users)
	m.checkTable(ctx, second, users, "in the second table")
	for i, here := 0, w.tableOf(w.store); i < len(users); i++ {
		if there := w.tableOf(second).home(users[i]); !slices.Equal(there, here.home(users[i])) {
			w.load.fail("I1", "the home of %s has %v, and in the second table %v", users[i], here.home(users[i]), there)
		}
	}
	found, sum := w.auditAll(ctx, second, nil, audit.Walk{})
	if len(found) > 0 || sum.Undecided > 0 {
		w.load.fail("audit", "findings in the second table: %+v, %d are undecided", found, sum.Undecided)
	}
}
