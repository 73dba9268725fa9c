package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// hours is the oracle of the limit of units in an hour (docs/decisions/0047). It sees each write,
// and decides by the write alone whether the write has an effect that must be counted.
type hours struct {
	names   map[string]string // names of operations, by id
	begun   map[string]begun  // by operation
	own     map[string]bool   // posts that an API published
	counted map[string]bool   // the effects that were counted
	alone   map[string]int    // comments that were counted and not made yet, by operation
	wrote   map[string]int    // writes and messages, by operation
	spent   map[spent]int64
	posts   map[string]map[schema.Hour]int64 // the posts that an hour counts, by user
	// left has the hours in the counts of a user when the world was quiet. newest has the last hour
	// in which a transaction has counted since then.
	left   map[string][]schema.Hour
	newest map[string]schema.Hour
	// again has the hours in which calls have counted since then: a call whose key was bound in an
	// earlier hour counts in that hour.
	again map[spent]bool
}

// spent names an hour of a user.
type spent struct {
	user string
	hour schema.Hour
}

// begun has the hours of a user at the beginning of an operation. The user is "" if the operation
// has a bound idempotency key.
type begun struct {
	user         string
	spent, posts map[schema.Hour]int64
}

// begins records the beginning of an operation.
func (w *World) begins(op *operation) {
	h := w.counting
	h.names[op.id()] = op.name
	key := strings.TrimPrefix(op.name, "post ")
	of, reposts := strings.CutPrefix(op.name, "repost ")
	if w.shape.Units == 0 || w.items[schema.IdempotencyKey(op.user, key)] != nil || reposts && w.items[schema.RepostKey(op.user, of)] != nil {
		return // an earlier call has promised the post
	}
	if slices.ContainsFunc(w.shadows.veils, func(v veil) bool { return v.key == schema.CountsKey(op.user) }) {
		return // the operation may read the counts before a transaction that is not wholly visible yet
	}
	b := begun{op.user, map[schema.Hour]int64{}, maps.Clone(h.posts[op.user])}
	for of, units := range h.spent {
		if of.user == op.user {
			b.spent[of.hour] = units
		}
	}
	h.begun[op.id()] = b
}

func newHours() *hours {
	return &hours{
		names: map[string]string{}, begun: map[string]begun{}, own: map[string]bool{}, counted: map[string]bool{}, alone: map[string]int{}, wrote: map[string]int{},
		spent: map[spent]int64{}, posts: map[string]map[schema.Hour]int64{}, left: map[string][]schema.Hour{}, newest: map[string]schema.Hour{}, again: map[spent]bool{},
	}
}

// count is the part of an update that counts units.
type count struct {
	spent

	units, posts int64
	former       []schema.Hour
}

// hourOf returns the hour that an attribute of a user's counts is about.
func hourOf(name string) (h schema.Hour, posts, ok bool) {
	digits, ok := strings.CutPrefix(name, "h")
	if !ok {
		return 0, false, false
	}
	digits, posts = strings.CutPrefix(digits, "p")
	n, err := strconv.ParseInt(digits, 10, 64)
	return schema.Hour(n), posts, err == nil
}

// drops forgets the hours that an update removes. If old work is repeated, the work may count in
// such an hour again.
func (h *hours) drops(in *table.UpdateInput) {
	user := strings.TrimPrefix(in.Key.PK, "u#")
	for _, name := range in.Remove {
		if hour, _, ok := hourOf(name); ok && in.Key == schema.CountsKey(user) {
			delete(h.spent, spent{user, hour})
		}
	}
}

// countOf returns the count in an update, nil if there is none.
func countOf(in *table.UpdateInput) *count {
	user, ok := strings.CutPrefix(in.Key.PK, "u#")
	if !ok || in.Key != schema.CountsKey(user) {
		return nil
	}
	c := count{spent: spent{user: user}}
	for _, attr := range in.Add {
		h, posts, ok := hourOf(attr.Name)
		switch {
		case !ok:
			continue
		case posts:
			c.posts += attr.Value.Int()
		default:
			c.units += attr.Value.Int()
		}
		c.hour = h
	}
	for _, name := range in.Remove {
		if h, _, ok := hourOf(name); ok {
			c.former = append(c.former, h)
		}
	}
	if c.hour == 0 {
		return nil
	}
	return &c
}

// effect is a thing that a transaction makes and an hour counts. must reports whether the hour has
// to count the thing: an hour need not count imports, blocks and removals.
type effect struct {
	name        string
	least, most int64
	must        bool
	at          time.Time // the time of the id, zero if the time of the operation counts
}

// effectOf returns the effect of a write, nil if there is none.
func (w *World) effectOf(c *call, ops []table.TransactOp) *effect {
	h, name := w.counting, w.counting.names[c.op]
	version := ""
	for _, op := range ops {
		if op.Put != nil && op.Put.Item.Has(schema.AttrVersion) && strings.HasSuffix(op.Put.Item.Key.PK, "#home") {
			version = op.Put.Item.Str(schema.AttrVersion)
		}
	}
	for _, op := range ops {
		switch key := op.Key(); {
		case op.Put != nil && strings.HasSuffix(key.PK, "#post"):
			post, _ := schema.PostOfSK(key.SK)
			at, err := id.Time(post)
			if err != nil {
				return nil
			}
			most := 11 + 7 + int64(len(w.load.users)) + 3 + 2*8
			if op.Put.Item.Has(schema.AttrRepostOf) {
				most += 6 + 5 // its original, and the count of the original
			}
			return &effect{"post " + post, 11 + 6, most, h.own[post], at}
		case op.Put != nil && strings.HasSuffix(key.PK, "#following") && version != "":
			return &effect{"follow " + version, 18, 1000, strings.HasPrefix(name, "follow"), time.Time{}}
		case op.Delete != nil && strings.HasSuffix(key.PK, "#following") && version != "":
			return &effect{"unfollow " + version, 15, 15 + 8, strings.HasPrefix(name, "unfollow"), time.Time{}}
		case op.Put != nil && key.SK == schema.SortInfo && strings.HasPrefix(key.PK, "u#"):
			return &effect{fmt.Sprintf("profile %s %d", key.PK, op.Put.Item.Int(schema.AttrBylineV)), 6, 10_000, false, time.Time{}}
		}
	}
	return nil
}

// sawUse records the units of an applied write.
func (w *World) sawUse(c *call) {
	ops := c.ops
	switch in := c.in.(type) {
	case table.PutInput:
		ops = []table.TransactOp{{Put: &in}}
	case table.UpdateInput:
		ops = []table.TransactOp{{Update: &in}}
	}
	if len(ops) == 0 {
		return
	}
	h := w.counting
	h.wrote[c.op]++
	var counted *count
	for _, op := range ops {
		if op.Update == nil {
			continue
		}
		h.drops(op.Update)
		if counted == nil {
			counted = countOf(op.Update)
		}
	}
	made := w.effectOf(c, ops)
	switch {
	case counted != nil:
		w.sawCount(c, counted, made, len(ops) == 1)
	case made != nil && made.must && w.shape.Units > 0:
		w.load.fail("I11", "%s is made, and its units are counted in no hour", made.name)
	}
	for _, op := range ops {
		if op.Put == nil || w.shape.Units == 0 || !strings.HasSuffix(op.Put.Item.Key.PK, "#comment") || !strings.HasPrefix(h.names[c.op], "comment") {
			continue
		}
		if h.alone[c.op]--; h.alone[c.op] < 0 {
			w.load.fail("I11", "a comment of %s is made, and its units are counted in no hour", c.op)
		}
	}
}

// sawCount checks a write that counts units. The write counts one effect, once, in the effect's
// hour, and drops no hour that another process may still use.
func (w *World) sawCount(c *call, n *count, made *effect, alone bool) {
	h := w.counting
	if b := h.begun[c.op]; !alone && b.user == n.user && !w.hours && min(b.spent[n.hour], h.spent[n.spent]) >= w.shape.Units && (n.posts == 0 || b.posts[n.hour] >= 4) {
		w.load.fail("I11", "%s (%s) is counted in an hour of %s that had %d of %d units when it began", c.op, h.names[c.op], n.user, b.spent[n.hour], w.shape.Units)
	}
	h.spent[n.spent] += n.units
	if h.posts[n.user] == nil {
		h.posts[n.user] = map[schema.Hour]int64{}
	}
	h.posts[n.user][n.hour] += n.posts
	for _, former := range n.former {
		if former >= n.hour-1 {
			w.load.fail("I11", "a call of the hour %d drops the hour %d of %s", n.hour, former, n.user)
		}
	}
	if alone {
		h.alone[c.op]++
		if !strings.HasPrefix(h.names[c.op], "comment") || n.units < 148+3 || n.units > 148+3*5+3+2*10 || n.posts != 0 {
			w.load.fail("I11", "%s (%s) counts %d units of %s without an effect", c.op, h.names[c.op], n.units, n.user)
		}
		return
	}
	h.newest[n.user] = max(h.newest[n.user], n.hour)
	h.again[n.spent] = true
	switch {
	case made == nil:
		w.load.fail("I11", "%s (%s) counts %d units of %s in a transaction without an effect", c.op, h.names[c.op], n.units, n.user)
	case h.counted[made.name]:
		w.load.fail("I11", "%s is counted twice", made.name)
	case n.units < made.least || n.units > made.most || (n.posts == 1) != strings.HasPrefix(made.name, "post "):
		w.load.fail("I11", "%s counts %d units and %d posts, want %d to %d units", made.name, n.units, n.posts, made.least, made.most)
	case !made.at.IsZero() && schema.HourOf(made.at) != n.hour:
		w.load.fail("I11", "%s counts in the hour %d", made.name, n.hour)
	}
	if made != nil {
		h.counted[made.name] = true
	}
}

// refusedByHour reports whether a call was refused because the hour of its user is used up.
func refusedByHour(err error) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && e.Kind == fault.TooSoon
}

// checkRefused checks that a refused call wrote nothing, unless the call had several tries.
func (w *World) checkRefused(op *operation) {
	h := w.counting
	if n := h.wrote[op.id()]; refusedByHour(op.err) && n > 0 && (strings.HasPrefix(op.name, "post ") || strings.HasPrefix(op.name, "comment ")) {
		w.load.fail("I11", "%s of %s was refused, and has %d writes and messages", op.name, op.user, n)
	}
	if refusedByHour(op.err) && strings.HasPrefix(op.name, "post ") {
		for _, posts := range h.posts[op.user] {
			if posts >= 4 {
				return
			}
		}
		w.load.fail("I11", "%s of %s was refused, though no hour has four posts", op.name, op.user)
	}
}

// checkHours checks the counts of a quiet world: an hour has exactly the counted effects, and the
// next transaction removes past hours.
func (w *World) checkHours() {
	h := w.counting
	sleepers := false
	for _, p := range w.procs {
		sleepers = sleepers || p.asleep
	}
	for _, user := range append(w.load.users, leaver, mate, foe) {
		it := w.items[schema.CountsKey(user)]
		var now []schema.Hour
		if it != nil {
			for _, attr := range it.Attrs {
				hour, posts, ok := hourOf(attr.Name)
				if !ok || posts {
					continue
				}
				now = append(now, hour)
				if want := h.spent[spent{user, hour}]; attr.Value.Int() != want {
					w.load.fail("I11", "the hour %d of %s has %d units, and its calls caused %d", hour, user, attr.Value.Int(), want)
				}
			}
		}
		for _, was := range h.left[user] {
			for _, hour := range now {
				if hour == was && !sleepers && !w.hours && h.newest[user] > was+1 && !h.again[spent{user, was}] {
					w.load.fail("I9", "the counts of %s keep the hour %d, and have counted the hour %d since", user, was, h.newest[user])
				}
			}
		}
		h.left[user] = now
		if sleepers {
			h.left[user] = nil // the sleepers' calls may have read the counts before
		}
	}
	clear(h.newest)
	clear(h.again)
}
