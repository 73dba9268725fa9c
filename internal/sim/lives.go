package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// In half of the worlds a user is removed in the storms and returns, while clients of the user and
// of two more users repeat the same calls (I12). None of the three users follows another user of
// the world, so all other oracles ignore them. The oracle knows a life by the profile that was
// written, and does not compare ids.

const (
	leaver, mate, foe = "leaver", "mate", "foe"
	// lifeOps is added to the numbers of the operations on lives. Each such operation belongs to an
	// operation of the workload, and shrinking leaves out both together.
	lifeOps = 1_000_000
)

// lifeClients returns the clients that make the operations on lives, each client one operation at a
// time. The first client makes all removals and returns.
func lifeClients() []string { return []string{"life-0", "life-1", "life-2"} }

// oneWriter reports whether the processes of a world stand for the roles of one process on the embedded engine, which
// alone writes the table, and remembers authors.
func oneWriter(seed uint64) bool { return seed%8 == 7 }

// lives is the oracle's knowledge of the lives of the leaver.
type lives struct {
	on   bool
	post string // a post of mate, which the leaver likes and comments on
	// read has the life that each operation of a client has read last.
	read map[string]string
	// made has, by key, the life that the last writer of a record had read. ids has, by id, the life
	// of a post, a comment, a like or a removal.
	made map[table.Key]string
	// ahead has the records whose ids are more than a minute ahead of their writes, because the clock
	// of the writing process was ahead. A removal may treat such records as records of a later life.
	ahead map[table.Key]bool
	// early has the events whose ids were more than a minute ahead when they were sent. A worker makes
	// their records later.
	early map[string]bool
	ids   map[string]string
	// owed has, by kind of record, the last life in which a call for a record was answered.
	owed map[string]owed
	// left is set while a removal was answered and no new life has begun. births is the number of writes of
	// the leaver's profile.
	left   bool
	births int
	// walks has the number of take-backs of each life of a process.
	walks map[walks]int
}

// owed is a record that an answer has promised in a life.
type owed struct {
	life string
	keys []table.Key
}

func newLives(seed uint64, s Shape, o Options) lives {
	return lives{
		on:   !o.Calm && !o.Plain && o.Fans == 0 && !s.Hours && draws(seed, 0, 4).IntN(2) == 0,
		read: map[string]string{}, made: map[table.Key]string{}, ahead: map[table.Key]bool{}, early: map[string]bool{}, ids: map[string]string{}, owed: map[string]owed{}, walks: map[walks]int{},
	}
}

// lifeOf returns the name of a profile's life, "" if there is no profile.
func lifeOf(profile *table.Item) string {
	if profile == nil {
		return ""
	}
	return fmt.Sprintf("%d after %s", profile.Int(schema.AttrCreated), profile.Str(schema.AttrAfter))
}

// life returns the name of the present life of the leaver.
func (w *World) life() string { return lifeOf(w.items[schema.ProfileKey(leaver)]) }

// populate writes the three users, and a post.
func (l *lives) populate(w *World) {
	if !l.on {
		return
	}
	now := time.Now()
	for _, user := range []string{leaver, mate, foe} {
		w.write(schema.Profile{User: user, Name: user, CreatedAt: now}.Item())
	}
	made, err := id.NewSeededGenerator(time.Now, entropy(w.seed)).New()
	if err != nil {
		w.load.fail("oracle", "%v", err)
		return
	}
	l.post = made
	w.write(schema.Post{ID: made, Author: mate, Content: schema.Content{Text: "hello"}, LikeShards: 1}.Item())
	w.write(schema.PostRef{ID: made, Author: mate, LikeShards: 1}.Item())
	w.write(table.Item{Key: schema.CountsKey(mate), Attrs: []table.Attr{{Name: schema.AttrPosts, Value: table.N(1)}}})
	w.write(table.Item{Key: table.Key{PK: schema.TimelinePK(mate), SK: schema.EntrySK(made, mate)}, Attrs: schema.EntryAttrs(now.Add(timelineTTL), 1)})
}

// beside adds an operation on lives to some of the planned operations. In a world with a memory of authors it adds one
// to each, because a removal seldom meets the read of a post.
func (l *lives) beside(seed uint64, of []planned) []planned {
	if !l.on {
		return of
	}
	var all []planned
	for _, p := range of {
		all = append(all, p)
		if r := draws(seed, p.number, 3); r.IntN(3) == 0 || oneWriter(seed) {
			all = append(all, planned{lifeOps + p.number, lifeClients()[r.IntN(len(lifeClients()))], "life", p.skip})
		}
	}
	return all
}

// serves reports whether the clock of an API differs by less than the gap between two lives.
func (l *lives) serves(api *Proc) bool {
	skew := time.Duration(api.skew.Load())
	return skew.Abs() <= mostSkew
}

// lifeOp makes an operation on lives.
func (l *workload) lifeOp(r *rand.Rand, p planned) *operation {
	if p.user == lifeClients()[0] && r.IntN(3) > 0 && (l.w.authors == nil || !l.w.lives.left || r.IntN(2) == 0) {
		return l.leaveOrReturn(r, p.user)
	}
	kinds := l.w.lives.records(l.w.seed, l.w.shape.Notices)
	kind := kinds[r.IntN(len(kinds))]
	if l.w.authors != nil && r.IntN(4) > 0 { // a removal meets posts whose reads of the author are under way, and later posts
		kind = kinds[slices.IndexFunc(kinds, func(of lifeRecord) bool { return of.name == "post" })]
	}
	return l.record(p.user, kind)
}

// leaveOrReturn removes the leaver, or makes the profile of the leaver.
func (l *workload) leaveOrReturn(r *rand.Rand, client string) *operation {
	if l.w.life() == "" {
		return &operation{
			name: "return", user: client,
			do: func(ctx context.Context, s *domain) error {
				_, err := s.PutProfile(ctx, leaver, feed.ProfileInput{Name: leaver})
				return err
			},
			settle: func(error) {},
		}
	}
	command := r.IntN(2) == 0
	return &operation{
		name: "leave", user: client,
		do: func(ctx context.Context, s *domain) error {
			if s.ahead() {
				return &fault.Error{Kind: fault.Unavailable} // as removal.askToForget does without a clock
			}
			if command {
				_, err := s.AskToForget(ctx, leaver)
				return err
			}
			return s.DeleteProfile(ctx, leaver)
		},
		// The answer of a removal's transaction may be lost, and a read may still see the profile for a moment. The
		// embedded engine has no such moment, so no call is judged by it. A return before it, whose answer was lost, may become
		// visible after the removal has found no profile.
		settle: func(err error) {
			l.w.lives.left = err == nil && lifeOf(l.w.visible(schema.ProfileKey(leaver))) == "" && l.w.life() == ""
		},
	}
}

// lifeRecord is a kind of record: the call that makes the record, and the keys. The keys of a comment and of a
// post contain their new ids.
type lifeRecord struct {
	name string
	do   func(ctx context.Context, s *domain) (keys []table.Key, err error)
}

// records returns the kinds of record of a world. A removal finds the likes of a user only by the
// index.
func (l *lives) records(seed uint64, notices bool) []lifeRecord {
	made := func(err error, keys ...table.Key) ([]table.Key, error) { return keys, err }
	all := []lifeRecord{
		{"follow", func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.Follow(ctx, leaver, mate), schema.FollowingKey(leaver, mate), schema.FollowerKey(mate, leaver))
		}},
		{"follow" + silently, func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.FollowSilently(ctx, leaver, mate), schema.FollowingKey(leaver, mate), schema.FollowerKey(mate, leaver))
		}},
		{"followed", func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.Follow(ctx, mate, leaver), schema.FollowingKey(mate, leaver), schema.FollowerKey(leaver, mate))
		}},
		{"mute", func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.Mute(ctx, leaver, mate), schema.MuteKey(leaver, mate), schema.MuterKey(mate, leaver))
		}},
		{"muted", func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.Mute(ctx, mate, leaver), schema.MuteKey(mate, leaver), schema.MuterKey(leaver, mate))
		}},
		{"block", func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.Block(ctx, leaver, foe), schema.BlockKey(leaver, foe), schema.BlockKey(foe, leaver))
		}},
		{"blocked", func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.Block(ctx, foe, leaver), schema.BlockKey(leaver, foe), schema.BlockKey(foe, leaver))
		}},
		{"bookmark", func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.Bookmark(ctx, leaver, l.post), schema.BookmarkOfKey(leaver, l.post))
		}},
		{"marker", func(ctx context.Context, s *domain) ([]table.Key, error) {
			_, err := s.SetMarker(ctx, leaver, "home", "1")
			return made(err, schema.MarkerKey(leaver, "home"))
		}},
		{"post", func(ctx context.Context, s *domain) ([]table.Key, error) {
			p, err := s.CreatePost(ctx, leaver, feed.PostInput{Content: feed.Content{Text: "again"}, IdempotencyKey: "again"})
			return made(err, schema.PostKey(leaver, p.ID))
		}},
		{"comment", func(ctx context.Context, s *domain) ([]table.Key, error) {
			c, err := s.CreateComment(ctx, leaver, l.post, "again")
			return made(err, schema.CommentKey(l.post, c.ID))
		}},
	}
	if seed%2 == 0 {
		all = append(all, lifeRecord{"like", func(ctx context.Context, s *domain) ([]table.Key, error) {
			return made(s.Like(ctx, leaver, l.post), schema.LikeKey(l.post, leaver, 1))
		}})
	}
	if notices {
		all = append(all, lifeRecord{"notice mark", markNow})
	}
	return all
}

// record makes a record. If the API answers the call in the life in which the call began, the record is owed.
func (l *workload) record(client string, kind lifeRecord) *operation {
	of, began, left, births := &l.w.lives, l.w.life(), l.w.lives.left, l.w.lives.births
	var keys []table.Key
	return &operation{
		name: kind.name, user: client,
		do: func(ctx context.Context, s *domain) (err error) {
			keys, err = kind.do(ctx, s)
			return err
		},
		settle: func(err error) {
			if err == nil && left && births == of.births && kind.name == "post" && l.w.authors != nil {
				l.fail("I12", "%s was answered, although the removal of %s was answered before the call began", kind.name, leaver)
			}
			if err != nil || began == "" || began != l.w.life() {
				return
			}
			name := kind.name
			if name == "comment" { // each call makes another comment
				name += keys[0].SK
			}
			of.owed[name] = owed{began, keys}
		},
	}
}

// ofClient reports whether an operation is an operation on lives.
func ofClient(op string) bool {
	number, err := strconv.Atoi(strings.TrimPrefix(op, "op"))
	return err == nil && number > lifeOps
}

// sawRead records the life that an operation of a client reads.
func (w *World) sawRead(c *call) {
	if ofClient(c.op) && slices.Contains(c.pks, schema.UserPK(leaver)) {
		w.lives.read[c.op] = lifeOf(w.visible(schema.ProfileKey(leaver)))
	}
}

// sawEvent records the life in which an event was made.
func (w *World) sawEvent(op string, payload []byte) {
	e := decoded(payload)
	if e == nil || !ofClient(op) {
		return
	}
	if w.authors != nil && w.lives.read[op] == "" { // the call has read the memory of authors
		w.lives.read[op] = w.life()
	}
	w.lives.ids[e.Head().EventID] = w.lives.read[op]
	if at, err := id.Time(e.Head().EventID); err == nil && time.Until(at) > time.Minute {
		w.lives.early[e.Head().EventID] = true
	}
	if post, ok := e.(*messages.PostCreated); ok {
		if _, known := w.lives.ids[post.PostID]; !known {
			w.lives.ids[post.PostID] = w.lives.read[op]
		}
	}
}

// sawLife handles a write. A removal ends the life that the removal's call has read, and no later
// life.
func (w *World) sawLife(key table.Key, now *table.Item) {
	l := &w.lives
	if !l.on {
		return
	}
	if key == schema.ProfileKey(leaver) && now != nil {
		l.left = false
		l.births++
	}
	if key == schema.ProfileKey(leaver) && now == nil {
		note := w.items[schema.ForgottenKey(leaver)]
		if note == nil {
			return // checkLife reports it
		}
		if asked, ended := l.ids[note.Str(schema.AttrEvent)], lifeOf(w.items[key]); asked != ended {
			w.load.fail("I12", "a removal of the life %q ends the life %q", asked, ended)
		}
		return
	}
	if c := w.acting; c != nil && now != nil && ofClient(c.op) {
		l.made[key] = l.read[c.op]
		l.ahead[key] = isAhead(*now)
		w.sawMarkOfLife(l.read[c.op], key, now)
	}
}

// isAhead reports whether the id of a record is more than a minute ahead of now.
func isAhead(it table.Item) bool {
	of, ok := schema.CommentOfSK(it.Key.SK)
	if post, isPost := schema.PostOfSK(it.Key.SK); isPost {
		of, ok = post, true
	} else if like, err := schema.ParseLike(it); err == nil {
		of, ok = like.Version, true
	} else if b, err := schema.ParseBookmark(it); err == nil {
		of, ok = b.V, true
	}
	at, err := id.Time(of)
	return ok && err == nil && time.Until(at) > time.Minute
}

// checkLife checks at any moment that the table has a profile or a note of a removal for the
// leaver.
func (w *World) checkLife() {
	w.checkKeptHalves(leaver)
	if w.lives.on && w.life() == "" && w.items[schema.ForgottenKey(leaver)] == nil {
		w.load.fail("I12", "%s has neither a profile nor the note of a removal", leaver)
	}
}

// checkLives checks the lives once the world is quiet: no record of a former life exists, and all
// answered records of the present life exist.
func (w *World) checkLives() {
	l := &w.lives
	if !l.on || w.lostEvents() {
		return
	}
	now := w.life()
	for _, it := range w.ofLeaver() {
		made, ahead := l.made[it.Key], l.ahead[it.Key]
		if post, ok := schema.PostOfSK(it.Key.SK); ok {
			made, ahead = l.ids[post], ahead || l.early[post]
		} else if like, err := schema.ParseLike(it); err == nil {
			made, ahead = l.ids[like.Version], ahead || l.early[like.Version]
		}
		if (made != now || now == "") && !ahead {
			w.load.fail("I12", "%v is there, of the life %q; now is %q", it.Key, made, now)
		}
	}
	for _, kind := range sorted(l.owed) {
		for _, key := range l.owed[kind].keys {
			if l.owed[kind].life == now && !w.hasRecord(kind, key) {
				w.load.fail("I12", "%s was answered in this life (%q), and %v is not there", kind, now, key)
			}
		}
	}
}

// hasRecord reports whether a record exists. The item of a like or a block may exist without the like or the
// block.
func (w *World) hasRecord(kind string, key table.Key) bool {
	it := w.items[key]
	if it == nil || kind != "like" && kind != "block" && kind != "blocked" {
		return it != nil
	}
	side := map[bool]string{true: schema.AttrSince, false: schema.AttrBlockedBy}
	switch kind {
	case "like":
		return it.Int(schema.AttrState) == 1
	case "block":
		return it.Has(side[key == schema.BlockKey(leaver, foe)])
	}
	return it.Has(side[key == schema.BlockKey(foe, leaver)])
}

// ofLeaver returns the records of the leaver, except mutes and blocks by other users.
func (w *World) ofLeaver() []table.Item {
	all := slices.Concat(w.partition(schema.FollowingPK(leaver)), w.partition(schema.FollowersPK(leaver)), w.partition(schema.PostsPK(leaver)))
	own := []table.Key{schema.MarkerKey(leaver, "home"), schema.NoticeMarkKey(leaver), schema.MuteKey(leaver, mate), schema.LikeKey(w.lives.post, leaver, 1)}
	if it := w.items[schema.BlockKey(leaver, foe)]; it != nil && it.Has(schema.AttrSince) {
		own = append(own, it.Key)
	}
	for _, key := range own {
		if it := w.items[key]; it != nil && (key != schema.LikeKey(w.lives.post, leaver, 1) || it.Int(schema.AttrState) == 1 && w.seed%2 == 0) {
			all = append(all, *it)
		}
	}
	for _, it := range w.partition(schema.BookmarksPK(leaver)) {
		if _, listed := schema.BookmarkOfSK(it.Key.SK); listed {
			all = append(all, it)
		}
	}
	for _, it := range w.partition(schema.CommentsPK(w.lives.post)) {
		if c, err := schema.ParseComment(it); err == nil && c.Author == leaver {
			all = append(all, it)
		}
	}
	return all
}

// lostEvents reports whether an event of the leaver is a dead letter, so that the event may have had no
// effect.
func (w *World) lostEvents() bool {
	for _, topic := range queue.Topics() {
		for _, d := range w.queue(topic).dead {
			switch e := decoded(d.Payload).(type) {
			case *messages.UserForgotten:
				return true
			case *messages.PostCreated:
				if e.AuthorID == leaver {
					return true
				}
			}
			if like := likeOf(decoded(d.Payload)); like != nil && like.UserID == leaver {
				return true
			}
		}
	}
	return false
}
