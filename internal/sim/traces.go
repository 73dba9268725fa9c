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

// A run that asks for a trace records the events of one post's likes in the terms of
// spec/Kinds.tla: each write to the table in the order of the effects, and each answered message.
// The trace has no reads of a window: the spec finds these reads (spec/KindsTrace.tla).

// mostLines is the maximum number of lines of a trace. The more windows a trace has, the longer TLC
// takes for each line.
const mostLines = 60

// likeLine is one line of a trace.
type likeLine struct {
	what    string // put, flush, fence, note, prune, expire, ack, or odd; no spec allows odd
	user    string
	flush   schema.Flush
	version string
	kind    string
	base    string
	counts  map[string]int64
}

// likeTrace has the lines of one post. over means that something outside of the spec happened to
// the post; then the trace gets no more lines.
type likeTrace struct {
	lines []likeLine
	over  bool
	// stamped has the incarnations that stamped a like, and noted has the incarnations whose end is
	// noted. written has the writes of windows, by user.
	stamped map[string]bool
	noted   map[string]bool
	written map[string]bool
	kinds   map[string]string // kinds of the actions, by user and version
}

// likeTraces has the traces of all posts. A nil likeTraces records nothing.
type likeTraces struct{ posts map[string]*likeTrace }

func newLikeTraces(o Options) *likeTraces {
	if !o.Traces {
		return nil
	}
	return &likeTraces{map[string]*likeTrace{}}
}

// specTraces are the traces of a run for the specs.
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

// saw records a write by an aggregator, or the expiry of an item. A write by any other process is
// not in the spec.
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

// put adds the write of a like. A window writes the like of a user again only after another window
// has replaced it.
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

// knows reports whether an action has this kind, or has no kind yet: an action of a removed user
// loses its kind.
func (t *likeTrace) knows(user, version, kind string) bool {
	known, ok := t.kinds[user+" "+version]
	if !ok {
		t.kinds[user+" "+version] = kind
	}
	return !ok || known == kind
}

// counted adds the changes that a write of the count makes.
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

// handled adds an answered message. It leaves out a dead letter, which was answered too and had no
// effect, and a like of a post that was deleted or has an end.
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

// longest renders the trace with the most lines, "" if there is no trace.
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

// numbers gives names small numbers from 1 on, in the order of the requests.
type numbers map[string]int

func (n numbers) of(name string) int {
	if n[name] == 0 {
		n[name] = len(n) + 1
	}
	return n[name]
}

// kindNumbers returns the kinds with their numbers in the spec: an action n has the kind n % 4.
func kindNumbers() map[string]int {
	numbers := map[string]int{"": 0, schema.KindLike: 1}
	for i, kind := range kinds() {
		numbers[kind] = 2 + i
	}
	return numbers
}

// actions numbers the actions of each user in their order, so that the number of an action
// determines its kind.
func (t *likeTrace) actions() map[string]int {
	of := map[string][]string{}
	for _, action := range sorted(t.kinds) {
		user, version, _ := strings.Cut(action, " ")
		of[user] = append(of[user], version)
	}
	number, every := map[string]int{}, kindNumbers()
	for user, versions := range of {
		last := 0
		for _, version := range versions { // versions in the order of their bytes
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
	seq, took := map[string]int{}, map[int][]string{} // its number and its messages, by window
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
