package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// A trace of a follow has the terms of spec/Homes.tla: the events of the edge, of the mark and of
// the entries of one reader, and of the mode and the posts of one author (spec/HomesTrace.tla).

// homeLine is one line of the traces. A line about an author has no reader, and a line about a
// reader has no author.
type homeLine struct {
	reader, author string
	// what names the event: follow, unfollow, mark, gone, entry, removed, away, post, dead, old, plan, done, mode,
	// or over, which stands for something outside of the spec.
	what   string
	mark   schema.Mark
	mode   schema.Mode
	post   string
	pulled bool
}

// mostHomeLines is the maximum number of lines of a trace.
const mostHomeLines = 150

// homeTraces has the lines of all follows. A nil homeTraces records nothing.
type homeTraces struct {
	lines []homeLine
	over  bool
	modes map[string]schema.Mode
	posts map[string]string // the authors of the stored posts
	once  map[string]bool   // lines about a post that have been written
}

func newHomeTraces(o Options) *homeTraces {
	if !o.Traces {
		return nil
	}
	return &homeTraces{modes: map[string]schema.Mode{}, posts: map[string]string{}, once: map[string]bool{}}
}

func (ts *homeTraces) add(line homeLine) {
	if !ts.over {
		ts.lines = append(ts.lines, line)
	}
}

// ofPost adds a line about a post, unless the same line was written before.
func (ts *homeTraces) ofPost(what, author, post string) {
	if name := what + " " + post; !ts.once[name] {
		ts.once[name] = true
		ts.add(homeLine{author: author, what: what, post: post})
	}
}

// restored ends all traces: no line of a trace is a restore.
func (ts *homeTraces) restored() {
	if ts != nil {
		ts.add(homeLine{what: "over"})
		ts.over = true
	}
}

// ofSweep is the role of the sweep of expired items. The spec has only sweeps and processes.
const ofSweep = "sweep"

// saw records a write.
func (ts *homeTraces) saw(w *World, key table.Key, now *table.Item) {
	if ts == nil || ts.over {
		return
	}
	role := ""
	if ttl := w.ttls[key]; w.acting != nil {
		role = w.acting.proc.role
	} else if now == nil && ttl != 0 && ttl < time.Now().Add(w.early()).Unix() {
		role = ofSweep
	}
	parts := strings.Split(key.PK, "#")
	switch {
	case parts[0] == "p" && len(parts) == 2 && key == schema.PostByIDKey(parts[1]):
		ts.changed(parts[1], now)
	case parts[0] == "p" && len(parts) == 3 && parts[2] == "delivery":
		ts.delivered(w, role, parts[1], key, now)
	case parts[0] == "u" && len(parts) == 2 && key == schema.ModeKey(parts[1]):
		ts.switched(parts[1], role, now)
	case parts[0] == "u" && len(parts) == 2 && key == schema.ProfileKey(parts[1]) && now == nil:
		ts.add(homeLine{reader: parts[1], what: "over"})
		ts.add(homeLine{author: parts[1], what: "over"})
	case parts[0] == "u" && len(parts) == 3:
		ts.sawList(w, role, key, now)
	}
}

// sawList records a write of a user's posts, followees, marks or entries.
func (ts *homeTraces) sawList(w *World, role string, key table.Key, now *table.Item) {
	parts := strings.Split(key.PK, "#")
	user, list := parts[1], parts[2]
	other, named := schema.UserOfSK(key.SK)
	switch post, isPost := schema.PostOfSK(key.SK); {
	case list == "post" && isPost && now != nil && ts.posts[post] == "":
		ts.posts[post] = user
		ts.ofPost("post", user, post)
	case list == "following" && named:
		ts.edge(w, role, user, other, now != nil)
	case list == "home" && named && role != "api":
		ts.aged(w)
		ts.marked(role, user, other, now)
	case key == schema.PresenceKey(user):
		ts.add(homeLine{reader: user, what: "away"})
	case list == "timeline":
		ts.entry(w, role, user, key, now)
	}
}

// changed records a write of a post by id. No home owes a post with an end.
func (ts *homeTraces) changed(post string, now *table.Item) {
	if now == nil {
		return
	}
	if ref, err := schema.ParsePostRef(*now); err == nil && (ref.Deleted || ref.TakenDown != nil || !ref.End.IsZero()) {
		ts.ofPost("dead", ref.Author, post)
	}
}

// delivered records a write of a delivery record.
func (ts *homeTraces) delivered(w *World, role, post string, key table.Key, now *table.Item) {
	author := ts.posts[post]
	if now == nil || author == "" {
		return
	}
	if plan, err := schema.ParsePlan(*now); role != "fanout" {
		ts.add(homeLine{author: author, what: "over"})
	} else if err == nil && w.items[key] == nil {
		ts.add(homeLine{author: author, what: "plan", post: post, pulled: plan.State == schema.PlanPulled})
	}
	if w.complete(post) {
		ts.aged(w)
		ts.ofPost("done", author, post)
	}
}

// edge adds a change of an edge. The same transaction changes the mark.
func (ts *homeTraces) edge(w *World, role, reader, author string, follows bool) {
	before := w.items[schema.FollowingKey(reader, author)] != nil
	if before == follows && role == "fanout" { // a change of the day
		return
	}
	line := homeLine{reader: reader, author: author, what: "unfollow"}
	if follows {
		line.what = "follow"
	}
	mark, known := schema.Mark{}, false
	if it := w.itemOf(schema.MarkKey(reader, author)); it != nil {
		var err error
		mark, err = schema.ParseMark(*it)
		known = err == nil
	}
	unstored := follows && mark.From != id.Min && ts.posts[mark.From] != author // an import may be ahead of the post
	if line.mark = mark; before == follows || role != "api" || !known || unstored {
		line.what = "over"
	}
	ts.add(line)
}

func (ts *homeTraces) marked(role, reader, author string, now *table.Item) {
	line := homeLine{reader: reader, author: author, what: "mark"}
	switch {
	case role != ofSweep && role != "fanout":
		line.what = "over"
	case now == nil:
		line.what = "gone"
	default:
		mark, err := schema.ParseMark(*now)
		if line.mark = mark; err != nil {
			line.what = "over"
		}
	}
	ts.add(line)
}

// entry adds a new entry, or the end of an entry.
func (ts *homeTraces) entry(w *World, role, reader string, key table.Key, now *table.Item) {
	post, author, ok := schema.ParseEntrySK(key.SK)
	if !ok || reader == author {
		return
	}
	if now == nil {
		ts.aged(w)
	}
	line := homeLine{reader: reader, author: author, what: "entry", post: post}
	switch known := w.items[key] != nil; {
	case role != ofSweep && role != "fanout":
		line.what = "over"
	case known == (now != nil):
		return
	case role == ofSweep:
		line.what = "expired"
	case now == nil:
		line.what = "removed"
	}
	ts.add(line)
}

// aged adds the posts of an author that a home may lack because of the posts' age.
func (ts *homeTraces) aged(w *World) {
	for _, post := range sorted(ts.posts) {
		if !w.mayHaveExpired(post) {
			return
		}
		ts.ofPost("old", ts.posts[post], post)
	}
}

// switched adds a change of a mode, but no step of its walk.
func (ts *homeTraces) switched(author, role string, now *table.Item) {
	if now == nil || role != "fanout" {
		ts.add(homeLine{author: author, what: "over"})
		return
	}
	mode, err := schema.ParseMode(author, []table.Item{*now})
	was := ts.modes[author]
	if err == nil && was.State == mode.State && was.V == mode.V {
		return
	}
	ts.modes[author] = mode
	ts.add(homeLine{author: author, what: "mode", mode: mode})
}

// longest renders the trace of the follow whose mark changes most often, "" if nobody follows anybody.
func (ts *homeTraces) longest() string {
	if ts == nil {
		return ""
	}
	follows := map[pair][]homeLine{}
	for _, l := range ts.lines {
		if l.what == "follow" {
			follows[pair{l.reader, l.author}] = nil
		}
	}
	changes := map[pair]int{}
	for of := range follows {
		for _, l := range ts.lines {
			if l.author != "" && l.author != of.author || l.reader != "" && l.reader != of.follower {
				continue
			}
			if l.what == "over" || len(follows[of]) == mostHomeLines {
				break
			}
			follows[of] = append(follows[of], l)
			if slices.Contains([]string{"follow", "unfollow", "mark", "mode"}, l.what) {
				changes[of]++
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(changes), func(a, b pair) int {
		return cmp.Or(changes[b]-changes[a], strings.Compare(a.follower+" "+a.author, b.follower+" "+b.author))
	})
	if len(all) == 0 {
		return ""
	}
	return renderHome(follows[all[0]])
}

// renderHome returns a trace as a record of TLA+. Ids are numbers in their order: 1 is the lowest id of all.
func renderHome(lines []homeLine) string {
	ids := map[string]bool{}
	for _, l := range lines {
		for _, named := range []string{l.post, l.mark.From, l.mark.Pull, l.mode.Since} {
			ids[named] = true
		}
	}
	delete(ids, "")
	delete(ids, id.Min)
	number := map[string]int{"": 0, id.Min: 1}
	for i, named := range sorted(ids) {
		number[named] = i + 2
	}
	var out []string
	for _, l := range lines {
		text := fmt.Sprintf(`e |-> "%s"`, l.what)
		switch l.what {
		case "mode":
			text += fmt.Sprintf(`, m |-> "%s", v |-> %d, since |-> %d`, l.mode.State, l.mode.V, number[l.mode.Since])
		case "follow", "unfollow", "mark":
			text += ", mark |-> " + markOf(l.mark, number)
		case "gone", "away":
		case "plan":
			text += fmt.Sprintf(", p |-> %d, pulled |-> %s", number[l.post], strings.ToUpper(fmt.Sprint(l.pulled)))
		default:
			text += fmt.Sprintf(", p |-> %d", number[l.post])
		}
		out = append(out, "["+text+"]")
	}
	return "<<\n  " + strings.Join(out, ",\n  ") + ">>"
}

// markOf returns a mark in the terms of the spec. ttl shows how the mark may end: not, after the
// minute of a backfill, or later.
func markOf(m schema.Mark, number map[string]int) string {
	kind, ttl := "none", 0
	switch m.Kind {
	case schema.MarkUnfollowed:
		kind = "unf"
	case schema.MarkBackfill:
		kind = "bf"
	case schema.MarkPulled:
		kind = "pulled"
	}
	switch {
	case m.TTL.IsZero():
	case m.Kind == schema.MarkBackfill:
		ttl = 98
	default:
		ttl = 1
	}
	return fmt.Sprintf(`[k |-> "%s", from |-> %d, hide |-> %d, v |-> %d, ttl |-> %d]`, kind, number[m.Pull], number[m.From], m.V, ttl)
}
