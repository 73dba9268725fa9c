package sim

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// This file has the operations that mute and block, and their part of the oracle.

// hidden is a mute or a block of one user by another, according to the answers.
type hidden struct {
	on bool
	// doubtful means that a call had no answer and may still have an effect.
	doubtful bool
	// calls counts the calls that began.
	calls int
	// at is the time when the last call was answered.
	at time.Time
}

// certain reports whether the mute or block certainly exists.
func (h *hidden) certain() bool { return h != nil && h.on && !h.doubtful }

// hide makes or ends a mute or a block.
func (l *workload) hide(r *rand.Rand, user, kind string) *operation {
	other, on := l.other(r, user), kind == "mute" || kind == "block"
	near := 1 // the user follows the near user more often
	if kind == "block" || kind == "unblock" {
		near = len(l.users) - 1 // the near user follows the user more often
	}
	if r.IntN(3) > 0 {
		other = l.users[(slices.Index(l.users, user)+near)%len(l.users)]
	}
	p, all := pair{user, other}, l.mutes
	if kind == "block" || kind == "unblock" {
		all = l.blocks
		l.contested[p], l.contested[pair{other, user}] = true, true
	}
	if all[p] == nil {
		all[p] = &hidden{}
	}
	h := all[p]
	h.calls++
	before := h.doubtful
	h.doubtful = true // the call's effect may happen before its answer
	l.forgetSeen(user, other)
	looks, calls := on && r.IntN(2) == 0, h.calls
	var shown page.List[feed.HomeItem]
	return &operation{
		name: kind + " " + other, user: user,
		do: func(ctx context.Context, s *domain) error {
			err := map[string]func(context.Context, string, string) error{
				"mute": s.Mute, "unmute": s.Unmute, "block": s.Block, "unblock": s.Unblock,
			}[kind](ctx, user, other)
			if err == nil && looks { // a failed read of a home is not checked
				shown, _ = s.Home(ctx, user, home.Query{Pull: true}, page.Request{})
			}
			return err
		},
		settle: func(err error) {
			l.forgetSeen(user, other)
			if err != nil {
				return
			}
			h.on, h.doubtful, h.at = on, before, time.Now()
			for _, item := range shown.Items {
				if (item.Post.AuthorID == other || item.Of != nil && item.Of.Post.AuthorID == other) && h.calls == calls && !before {
					l.fail("I2", "home of %s shows %s of %s after the answer of the %s", user, item.Post.ID, other, kind)
				}
			}
		},
	}
}

// forgetSeen forgets the posts of author that the homes of user have shown.
func (l *workload) forgetSeen(user, author string) {
	for _, pull := range []bool{false, true} {
		maps.DeleteFunc(l.seen[homeOf{user, pull}], func(_, of string) bool { return of == author })
	}
}

// uncontested leaves out the posts of authors whose follow a concurrent block may have
// ended.
func (l *workload) uncontested(user string, posts map[string]string) {
	maps.DeleteFunc(posts, func(_, author string) bool { return l.contested[pair{user, author}] })
}

// refusedFor returns the check of an answered comment or like. The check fails if, from the time
// before until the end of the call, there was certainly a block between the user and the author.
func (l *workload) refusedFor(user, author string, before time.Duration) func() {
	for _, p := range []pair{{user, author}, {author, user}} {
		if h := l.blocks[p]; h.certain() && time.Since(h.at) >= before {
			calls := h.calls
			return func() {
				if h.calls == calls {
					l.fail("I2", "%s acted on a post of %s over a block by %s", user, author, p.follower)
				}
			}
		}
	}
	return func() {}
}

// checkHidden checks at any moment that both halves of a mute and both sides of a block exist
// and agree, and that there is no follow over a block.
func (w *World) checkHidden(user string) {
	l := w.load
	muted, muters := w.mutedBy(user), w.partition(schema.MutersPK(user))
	for _, author := range muted {
		if w.itemOf(schema.MuterKey(author, user)) == nil {
			l.fail("I4", "the mute of %s by %s has one half", author, user)
		}
	}
	for _, it := range muters {
		if m, err := schema.ParseMute(it); err != nil || w.itemOf(schema.MuteKey(m.User, user)) == nil {
			l.fail("I4", "the mute of %s by %s has one half: %v", user, m.User, err)
		}
	}
	for _, it := range w.partition(schema.BlocksPK(user)) {
		own, err := schema.ParseBlock(it)
		back := w.itemOf(schema.BlockKey(own.Other, user))
		if err != nil || back == nil {
			l.fail("I4", "a block between %s and %s has one side: %v", user, own.Other, err)
			continue
		}
		theirs, err := schema.ParseBlock(*back)
		if err != nil || !own.Since.Equal(theirs.By) || !own.By.Equal(theirs.Since) {
			l.fail("I4", "the sides of a block are %+v and %+v: %v", own, theirs, err)
		}
		if followed, _ := w.edge(user, own.Other); followed {
			l.fail("I4", "%s follows %s beside a block", user, own.Other)
		}
	}
}

// checkAnswered checks that mutes and blocks match their answers, and that their lists show the
// mutes and blocks (I5).
func (w *World) checkAnswered(ctx context.Context, service *domain) {
	r := w.reader(service)
	for _, kind := range []struct {
		name string
		all  map[pair]*hidden
		read func(context.Context, string, page.Request) (page.List[feed.Edge], error)
		is   func(user string) []string
	}{{"mutes", w.load.mutes, service.Mutes, w.mutedBy}, {"blocks", w.load.blocks, service.Blocks, w.blockedBy}} {
		there := map[string][]string{}
		for _, user := range w.load.users {
			there[user] = kind.is(user)
			got, err := whole(r, func(page page.Request) (page.List[feed.Edge], error) { return kind.read(ctx, user, page) })
			r.same("I5", kind.name+" of "+user, lines(got, func(e feed.Edge) string { return e.UserID }), err, there[user])
		}
		for _, p := range w.load.pairs() {
			if h := kind.all[p]; h != nil && !h.doubtful && h.on != slices.Contains(there[p.follower], p.author) {
				w.load.fail("I5", "%s was answered of %s: %s=%v, the table has %v", p.follower, p.author, kind.name, h.on, there[p.follower])
			}
		}
	}
}

// mutedBy returns the authors whom user mutes according to the table, in order.
func (w *World) mutedBy(user string) []string {
	all := []string{}
	for _, it := range w.partition(schema.MarksPK(user)) {
		if author, ok := schema.MutedOfSK(it.Key.SK); ok {
			all = append(all, author)
		}
	}
	return all
}

// blockedBy returns the users whom user blocks according to the table, in order.
func (w *World) blockedBy(user string) []string {
	all := []string{}
	for _, it := range w.partition(schema.BlocksPK(user)) {
		if b, err := schema.ParseBlock(it); err == nil && !b.Since.IsZero() {
			all = append(all, b.Other)
		}
	}
	return all
}
