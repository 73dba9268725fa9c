package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// A run that asks for a trace writes what happened to one post's likes in the terms of spec/Kinds.tla:
// each write to the table in the order of its effects, and each answered message. What a window read
// before a write is left to the spec, which finds the reads (spec/KindsTrace.tla).

// mostLines bounds a trace. TLC takes the longer for each line the more windows a trace has.
const mostLines = 60

// likeLine is one line of a trace.
type likeLine struct {
	what    string // put, flush, fence, note, prune, expire, ack, or odd, which no spec allows
	user    string
	flush   schema.Flush
	version string
	kind    string
	base    string
	counts  map[string]int64
}

// likeTrace has the lines of one post. Once it is over, because something outside of the spec
// happened to the post, it stays as it is.
type likeTrace struct {
	lines []likeLine
	over  bool
	// stamped has the incarnations that stamped a like, noted those whose end is noted, written the windows'
	// writes by user.
	stamped map[string]bool
	noted   map[string]bool
	written map[string]bool
	kinds   map[string]string // of the actions, by user and version
}

// likeTraces has the traces of all posts. A nil one records nothing.
type likeTraces struct{ posts map[string]*likeTrace }

func newLikeTraces(o Options) *likeTraces {
	if !o.Traces {
		return nil
	}
	return &likeTraces{map[string]*likeTrace{}}
}

// specTraces are what a run writes down for the specs.
type specTraces struct {
	likes *likeTraces
	homes *homeTraces
}

func (t specTraces) saw(w *World, key table.Key, now *table.Item) {
	t.likes.saw(w, key, now)
	t.homes.saw(w, key, now)
}

func (t specTraces) restored() {
	t.likes.restored()
	t.homes.restored()
}

func (ts *likeTraces) of(post string) *likeTrace {
	if ts.posts[post] == nil {
		ts.posts[post] = &likeTrace{stamped: map[string]bool{}, noted: map[string]bool{}, written: map[string]bool{}, kinds: map[string]string{}}
	}
	return ts.posts[post]
}

func (t *likeTrace) add(line likeLine) {
	if t.over = t.over || len(t.lines) >= mostLines; !t.over {
		t.lines = append(t.lines, line)
	}
}

// saw takes a write over. An aggregator writes, or an item expires; nobody else is in the spec.
func (ts *likeTraces) saw(w *World, key table.Key, now *table.Item) {
	if ts == nil {
		return
	}
	aggregator := w.acting != nil && w.acting.proc.role == "likeagg"
	if inc, ok := strings.CutPrefix(key.PK, "inc#"); ok && now != nil && aggregator {
		ts.ended(inc, now)
		return
	}
	post, like, count := postOfLikes(key.PK)
	if !like && !count {
		return
	}
	t := ts.of(post)
	switch expires := w.acting == nil && now == nil && like; {
	case expires:
		user, _ := schema.UserOfSK(key.SK)
		t.add(likeLine{what: "expire", user: user})
	case !aggregator || now == nil:
		t.over = true
	case like:
		t.put(now)
	default:
		t.counted(schema.ParseLikeCount(w.items[key]), schema.ParseLikeCount(now))
	}
}

// restored ends all traces: no line of a trace is a restore.
func (ts *likeTraces) restored() {
	if ts == nil {
		return
	}
	for _, t := range ts.posts {
		t.over = true
	}
}

func (ts *likeTraces) ended(inc string, it *table.Item) {
	end, err := schema.ParseLikeEnd(*it)
	for _, post := range sorted(ts.posts) {
		if t := ts.posts[post]; err == nil && t.stamped[inc] && !t.noted[inc] && !end.Lost[post] {
			t.noted[inc] = true
			t.add(likeLine{what: "note", flush: schema.Flush{Inc: inc}})
		}
	}
}

// put adds the write of a like. A window writes the like of a user again only after another one took it over.
func (t *likeTrace) put(it *table.Item) {
	l, err := schema.ParseLike(*it)
	written := l.User + " " + l.Flush.String()
	if err != nil || t.written[written] || !t.knows(l.User, l.Version, l.Kind) {
		t.over = true
		return
	}
	t.add(likeLine{what: "put", user: l.User, flush: l.Flush, version: l.Version, kind: l.Kind, base: l.Base})
	t.stamped[l.Flush.Inc], t.written[written] = true, true
}

// knows reports whether an action has this kind, if it has one yet: that of a removed user loses it.
func (t *likeTrace) knows(user, version, kind string) bool {
	known, ok := t.kinds[user+" "+version]
	if !ok {
		t.kinds[user+" "+version] = kind
	}
	return !ok || known == kind
}

// counted adds what a write of the count changed.
func (t *likeTrace) counted(was, is schema.LikeCount) {
	before := len(t.lines)
	for _, inc := range sorted(is.Done) {
		if is.Done[inc] != was.Done[inc] {
			t.add(likeLine{what: "flush", flush: schema.Flush{Inc: inc, Seq: is.Done[inc]}, counts: is.Kinds})
		}
	}
	flushed := len(t.lines) > before
	for _, inc := range sorted(is.Fenced) {
		if !was.Fenced[inc] {
			t.add(likeLine{what: "fence", flush: schema.Flush{Inc: inc}})
		}
	}
	gone := map[string]bool{}
	for inc := range was.Done {
		gone[inc] = is.Done[inc] == 0
	}
	for inc := range was.Fenced {
		gone[inc] = gone[inc] || !is.Fenced[inc]
	}
	maps.DeleteFunc(gone, func(_ string, is bool) bool { return !is })
	for _, inc := range sorted(gone) {
		t.add(likeLine{what: "prune", flush: schema.Flush{Inc: inc}})
	}
	if !flushed && !maps.Equal(some(was.Kinds), some(is.Kinds)) {
		t.add(likeLine{what: "odd"})
	}
}

// handled adds an answered message. A dead letter was answered too, and had no effect, nor has a like of a
// post that was deleted or has an end.
func (ts *likeTraces) handled(w *World, q *queueState, m *queued) {
	if ts == nil || slices.ContainsFunc(q.dead, func(d queue.DeadLetter) bool { return d.ID == m.id }) {
		return
	}
	like, kind, ok := messages.ActionOf(decoded(m.payload))
	if !ok {
		return
	}
	if t := ts.of(like.PostID); w.tombs[like.PostID] == 0 && w.endOf(like.PostID).IsZero() && t.knows(like.UserID, like.EventID, kind) {
		t.add(likeLine{what: "ack", user: like.UserID, version: like.EventID, kind: kind})
	} else {
		t.over = true
	}
}

// longest renders the trace with the most lines, "" for none.
func (ts *likeTraces) longest() string {
	if ts == nil || len(ts.posts) == 0 {
		return ""
	}
	posts := sorted(ts.posts)
	t := ts.posts[slices.MaxFunc(posts, func(a, b string) int { return cmp.Compare(len(ts.posts[a].lines), len(ts.posts[b].lines)) })]
	if len(t.stamped) == 0 {
		return ""
	}
	return t.render()
}

// numbers gives names small numbers from 1 on, in the order in which they are asked for.
type numbers map[string]int

func (n numbers) of(name string) int {
	if n[name] == 0 {
		n[name] = len(n) + 1
	}
	return n[name]
}

// kindNumbers are the kinds as the spec counts them: an action n has the kind n % 4.
func kindNumbers() map[string]int {
	numbers := map[string]int{"": 0, schema.KindLike: 1}
	for i, kind := range kinds() {
		numbers[kind] = 2 + i
	}
	return numbers
}

// actions numbers the actions of each user in their order, so that the number of an action shows its kind.
func (t *likeTrace) actions() map[string]int {
	of := map[string][]string{}
	for _, action := range sorted(t.kinds) {
		user, version, _ := strings.Cut(action, " ")
		of[user] = append(of[user], version)
	}
	number, every := map[string]int{}, kindNumbers()
	for user, versions := range of {
		last := 0
		for _, version := range versions { // in the order of their bytes
			action := user + " " + version
			for last++; last%len(every) != every[t.kinds[action]]; last++ {
			}
			number[action] = last
		}
	}
	return number
}

// render returns the trace as a record of TLA+.
func (t *likeTrace) render() string {
	users, incs, windows, seqs := numbers{}, numbers{}, numbers{}, map[string]int{}
	actions, every := t.actions(), kindNumbers()
	seq, took := map[string]int{}, map[int][]string{} // of a window, and the messages of each window
	var lines []string
	for _, l := range t.lines {
		text := fmt.Sprintf(`e |-> "%s"`, l.what)
		if l.user != "" {
			text += fmt.Sprintf(", u |-> %d", users.of(l.user))
		}
		if l.what == "put" || l.what == "ack" {
			text += fmt.Sprintf(", v |-> %d", actions[l.user+" "+l.version])
		}
		if l.flush.Inc != "" {
			text += fmt.Sprintf(", i |-> %d", incs.of(l.flush.Inc))
		}
		if l.what == "put" || l.what == "flush" {
			name := l.flush.String()
			if seq[name] == 0 {
				seqs[l.flush.Inc]++
				seq[name] = seqs[l.flush.Inc]
			}
			text += fmt.Sprintf(", s |-> %d, w |-> %d", seq[name], windows.of(name))
		}
		switch l.what {
		case "put":
			text += fmt.Sprintf(", st |-> %d, base |-> %d", every[l.kind], every[l.base])
			w := windows.of(l.flush.String())
			took[w] = append(took[w], fmt.Sprintf("<<%d, %d>>", users.of(l.user), actions[l.user+" "+l.version]))
		case "flush":
			counts := []string{fmt.Sprint(l.counts[schema.KindLike])}
			for _, kind := range kinds() {
				counts = append(counts, fmt.Sprint(l.counts[kind]))
			}
			text += ", n |-> <<" + strings.Join(counts, ", ") + ">>"
		}
		lines = append(lines, "["+text+"]")
	}
	var ms []string
	for w := range len(windows) {
		ms = append(ms, "{"+strings.Join(took[w+1], ", ")+"}")
	}
	return fmt.Sprintf("[ms |-> <<%s>>, lines |-> <<\n  %s>>]", strings.Join(ms, ", "), strings.Join(lines, ",\n  "))
}
