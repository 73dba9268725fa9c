package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"regexp"
)

// bug is an edit that survived once, and that would break a promise of the product. Each run tests all
// bugs of its packages, and fails if a bug survives.
type bug struct {
	name, file string
	// old occurs exactly once in the file, within one function.
	old, new string
}

// planted returns the bugs that each run tests, whatever mutants it draws.
//
//nolint:funlen // one table
func planted() []bug {
	const (
		walk, counts, likes     = "internal/ops/audit/audit.go", "internal/ops/audit/counts.go", "internal/ops/audit/likes.go"
		recent, write           = "internal/table/embedded/recent.go", "internal/table/embedded/write.go"
		record, topic           = "internal/queue/embedded/record.go", "internal/queue/embedded/topic.go"
		writer, marks           = "internal/queue/embedded/writer.go", "internal/fanout/walk.go"
		notifier, unfollows     = "internal/notify/notify.go", "internal/feed/unfollows.go"
		stream, agenda, budget  = "internal/live/stream.go", "internal/live/agenda.go", "internal/live/budget.go"
		changes, hub, keep      = "internal/live/changes.go", "internal/live/home.go", "internal/live/keep.go"
		wakes, readers, tail    = "internal/live/wakes.go", "internal/live/readers.go", "internal/live/tail.go"
		imports, exports        = "internal/ops/transfer/import.go", "internal/ops/transfer/export.go"
		posts, refers           = "internal/feed/posts.go", "internal/feed/refers.go"
		imported                = "internal/ops/transfer/verify.go"
		markers, bookmarks      = "internal/feed/markers.go", "internal/feed/bookmarks.go"
		jwk, letters, operation = "internal/auth/jwk.go", "internal/admin/deadletters.go", "internal/admin/op.go"
	)
	return []bug{
		// The simulation finds these five bugs in at most about one seed of a thousand.
		{"a repeated import leaves the owed backfill", "internal/feed/import.go", "pending = now.mark != nil && ", "pending = now.mark == nil && now.edge == nil && "},
		{"a repair lands after another repair", counts, "Key: key, If: former,", "Key: key, If: map[bool]table.Cond{false: former}[true],"},
		{"a removal deletes a marker that a new life moved", markers, "table.Any{table.Absent{}, table.Equal{Name: schema.AttrAsOf, Value: table.N(m.At.UnixMilli())}}", "table.Cond(nil)"},
		{"a removal looks for the new life before its page", "internal/feed/removal/sweep.go", "for page, err := range sw.r.access.Store.Query(ctx, q) {\n\t\tif err != nil {\n\t\t\treturn fault.Wrap(\"table\", err)\n\t\t}\n\t\tif len(page.Items) == 0 {\n\t\t\tcontinue\n\t\t}\n\t\tformer, err := sw.former(ctx)", "former, failed := sw.former(ctx)\n\tfor page, err := range sw.r.access.Store.Query(ctx, q) {\n\t\tif err != nil {\n\t\t\treturn fault.Wrap(\"table\", err)\n\t\t}\n\t\tif len(page.Items) == 0 {\n\t\t\tcontinue\n\t\t}\n\t\terr := failed"},
		{"a removal takes a bookmark that a new life made again", bookmarks, "If: table.Any{table.Absent{}, sameBookmark(b)}", "If: nil"},
		{"a count is judged by a list that changed meanwhile", counts, "if err != nil || !still || s.before != after {", "if _ = after; err != nil || !still {"},
		{"a count is judged that changed meanwhile", counts, "if err != nil || !still || s.before != after {", "if _ = still; err != nil || s.before != after {"},
		{"a count is judged by one check", counts, "if !s.again && !r.cfg.Local {", "if false {"},
		{"likes are judged by a ledger that changed meanwhile", likes, "if !sameItem(before, found[key]) {", "if false {"},
		{"an item is read from a commit that is not durable", recent, "if now, _ := s.commits.last(slot); !settled || now != seq {", "if !settled {"},
		{"a page is read from a commit that is not durable", recent, "if now, _ := s.commits.last(slotOf(partition)); !settled || now != seq {", "if !settled {"},
		{"readers of the index do not wait for a removed hint", write, "\tif was {\n", "\tif false {\n"},
		{"a batch takes no locks", write, "set.add(space.keys[i], !blind)", ""},
		{"readers of the index do not wait for a new hint", write, "st.addSlot(after.Str(table.AttrGSI1PK))", ""},
		{"a stream joins the others without a last look", stream, "frames, err := st.replay(ctx)\n\tif len(frames) > 0 {\n\t\tst.push", "frames, err := []byte(nil), error(nil)\n\tif len(frames) > 0 {\n\t\tst.push"},
		{"an RSA key with the exponent 2 is taken", jwk, " && key.E > 2", ""},
		{"a key of another curve is taken", jwk, "if key.Curve == elliptic.P256() {", "if key.Curve != elliptic.P521() {"},
		{"a check that meets another transaction is given up", walk, "|| !cancelled.Retryable()", "|| true"},
		{"a judgement does without what it cannot read", counts, "s.read(ctx); err != nil || len(s.counted.keys) == 0 {", "s.read(ctx); len(s.counted.keys) == 0 {"},
		{"a hint during a look is taken for the look's", agenda, "known != nil && (named ||", "known != nil && (true ||"},
		{"a read that waits for units gets them back", budget, "if err != nil {\n\t\tb.use(-units)", "if err == nil {\n\t\tb.use(-units)"},
		{"C1: the deletion of a failed transaction is told", wakes, "if err == nil && (wr.put != nil", "if (wr.put != nil"},
		{"C1: the tombstone of a guessed id is told", wakes, "err != nil, post.Unmade:", "err != nil:"},
		{"C2: an entry or an edit follows the deletion", changes, "if hm.hub.recent.isDeleted(p.ID) || ", "if "},
		{"C2: a repost follows the deletion of its original", changes, " || hm.hub.recent.isDeleted(p.RepostOf) {", " {"},
		{"C2: a quote of a deleted post is the last event", changes, "if send(st); hm.hub.recent.isDeleted(p.QuoteOf) {", "if send(st); false {"},
		{"C2: a deletion is told twice", changes, "if _, known := r.deleted[c.ref.Post]; known {", "if false {"},
		{"C2: an edit that leaves the ring takes the deletion with it", changes, "if old.deleted {", "if true {"},
		{"C3: a stream that joins lacks the changes since its opening", hub, "hm.retell(st.opened, st)", "_ = st.opened"},
		{"C3: changes before the list are lost", keep, "hm.retell(hm.lacks, nil)", "_ = hm.lacks"},
		{"C3: the ring forgets silently", changes, "return r.lost.Before(from)", "return true"},
		{"C3: a look does not see that the ring has forgotten a deletion", changes, "if !hm.hub.recent.whole(began) {", "if false {"},
		{"C4: edits are not seen", wakes, "wr.key); ok && wr.edited {", "wr.key); ok && false {"},
		{"C4: an edit is sent to a home that does not show the post", "internal/feed/home/arrivals.go", "h.hydrate(ctx, viewer, refs, true)", "h.hydrate(ctx, viewer, refs, false)"},
		{"C4: a failed look forgets its edited posts", agenda, "for _, ref := range refs {", "for _, ref := range refs[:0] {"},
		{"C4: a failing table is read each second", agenda, "a.editFails++", ""},
		{"C4: looks at edited posts have no gap", agenda, "a.editedAt = now.Add(editGap)", "a.editedAt = now"},
		{"C4: edits wait without bound", agenda, "!waits && len(a.edited) >= mostEdited", "false && waits"},
		{"C5: an author without deliveries is not heard", changes, "h.readers.of(c.by)", "h.readers.hinted(c.by)"},
		{"C5: an author without deliveries still gives hints", tail, "h.readers.hinted(by)", "h.readers.of(by)"},
		{"C6: other pages do not follow an unfollow", "internal/live/live.go", "if !heard {", "if false {"},
		{"C6: a tail that was away is not told", tail, "if made.More || now.Sub(t.good) > tailMost {", "if made.More {"},
		{"C6: a tail that reads only some changes is not told", tail, "if made.More || now.Sub", "if now.Sub"},
		{"C1: the tail tells a change at each tick", tail, "if !t.learns(change.Event, access.TimeOf(change.Event)) {", "if false {"},
		{"C1: a deletion is not in the log of changes", posts, "ops, err := s.noted(ops, tombstone)", "_, err := s.noted(ops, tombstone)"},
		{"C4: an edit is not in the log of changes", "internal/feed/edits.go", "s.noteEdit(ctx, byID)", "error(nil)"},
		{"C1: a process that is alone writes a log of changes", "internal/feed/changes.go", "if s.access.Local {\n\t\treturn ops, nil", "if false {\n\t\treturn ops, nil"},
		{"C6: a home without a list is never told", keep, "if !hm.hub.readers.whole(hm) {", "if false {"},
		{"C6: a home whose list lacks an author is never told", readers, "hm.authors.partial = true", ""},
		{"C7: a deletion does not see that a post was referred to", posts, "living = append(living, table.AttrAbsent{Name: schema.AttrReferred})", ""},
		{"C7: a deletion beside a repost finds no post", posts, "if failed != nil || !now.Deleted && now.Referred != byID.Referred {", "if _ = now; failed != nil {"},
		{"C7: a quoted post is not flagged", refers, "refused = s.refer(ctx, byID)", ""},
		{"C7: a post that another producer quotes is not flagged", refers, "if of.Of() == \"\" {", "if true {"},
		{"C7: a process that is alone tells its own readers only", wakes, "if err == nil && c.Referred && !c.Deleted {", "if err == nil && c.Referred && c.Deleted {"},
		{"C7: an edit is not told again after a look", changes, "if c.referred && !c.deleted && ", "if c.referred && c.deleted && "},
		{"C7: a stream that joins lacks the edits of strangers", changes, "listed || c.referred && st != nil {", "listed {"},
		{"C7: an edit of a post that a home lacks is not told", changes, "hm.tellEdited(ref.Post, nil) // a repost", "_ = ref // a repost"},
		{"C7: each home without a list of the author looks at the post", changes, "if !listed {\n", "if false {\n"},
		{"delayed messages are forgotten at a restart", topic, "t.nextDue = 0", ""},
		{"delayed messages are forgotten after a read that failed", writer, "t.retryAt = uint64(b.now()", "t.nextDue = uint64(b.now()"},
		{"a mark is written although its backfill has ended since the read", marks, "return table.All{table.Equal{Name: schema.AttrVersion, Value: table.S(mark.Version)}, ends}", "return map[bool]table.Cond{true: ends, false: table.Equal{Name: schema.AttrVersion, Value: table.S(mark.Version)}}[false]"},
		{"an unfollow is answered while homes still show the author", unfollows, "return s.hideUnfollowed(ctx, follower, author, now)", "return false, nil"},
		{"an edit removes the text without a condition", "internal/feed/edits.go", "append(table.All{table.Exists{}}, remains...)", "append(table.All{table.Exists{}}, remains[:0]...)"},
		{"a view shows a bookmark of a former life", bookmarks, "kept[b.Post] = Kept{Bookmarked: !ownBookmarks().former(b, after)}", "kept[b.Post] = Kept{Bookmarked: true || ownBookmarks().former(b, after)}"},
		{"the query of bookmarks leaves out the oldest post", "internal/feed/own.go", "for page, err := range s.access.Store.Query(ctx, q) {\n\t\tif err != nil {\n\t\t\treturn nil, fault", "q.Low += \"0\"\n\tfor page, err := range s.access.Store.Query(ctx, q) {\n\t\tif err != nil {\n\t\t\treturn nil, fault"},
		{"bookmarks beyond the query are not read by key", bookmarks, "calls.Spend(access.Batches(len(rest)))", "rest = nil"},
		{"a view shows bookmarks of the author", bookmarks, "keptThings{schema.BookmarksPK(user)", "keptThings{schema.BookmarksPK(refs[0].Author)"},
		{"a notification expires by a clock in doubt", notifier, "return cfg.Clock.Expired(cfg.Now())", "return cfg.Now()"},
		{"metadata before an empty payload cannot be read", record, "size > uint64(len(b)-n)", "size >= uint64(len(b)-n)"},
		{"a record that was cut is read", record, "if n <= 0 || size >", "if size >"},
		{"an import ends with the first moment of an outage", imports, "First: 50 * time.Millisecond", "First: 0"},
		{"the check of an import misses the entries of a backfill that has not ended", imported, " || m.Kind == schema.MarkBackfill && m.Until.IsZero()) {", ") {"},
		{"the check of an import misses no entry of a home that pulls the author", imported, "err == nil && (m.Pulls(post) ||", "err == nil && (m.Kind == schema.MarkPulled ||"},
		{"an export ends after the first page of users", exports, "next = page.Next", ""},
		{"an export has likes that were taken back", exports, `like.Kind == "" ||`, ""},
		{"a first page promises notifications that it hides", "internal/feed/notices/list.go", "if of.Unread {", "if of.Unread || r.above > shown {"},
		{"an export has bookmarks of posts that it lacks", "internal/ops/transfer/kept.go", "_, written[post] = e.posts[hashOf(post)]", "written[post] = true"},
		{"an export has a follow across a block", exports, "err != nil || between ||", "err != nil || !between && between ||"},
		{"an export names users who left", exports, "delete(e.users, user)\n\t\treturn nil\n\t}\n\tp, err", "return nil\n\t}\n\tp, err"},
		{"an export has posts that are later than its beginning", exports, "err != nil || e.late(made) {\n\t\t\treturn err\n\t\t}\n\t\tif p.RepostOf", "err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif p.RepostOf"},
		{"an import makes a second repost of a post", "internal/feed/import.go", "case bound.User != \"\":\n\t\t\treturn false, nil\n\t\t}", "}"},
		{"an import counts no repost", "internal/ops/transfer/import.go", "err = im.countReposts(ctx)", "err = nil"},
		{"an import loses the data of a comment", "internal/feed/import.go", "Data: in.Data, Mentions: c.Mentions}", "Mentions: c.Mentions}"},
		{"an export loses the data of a comment", exports, "Data: messages.Data(c.Data), ", ""},
		{"a key is bound to a post without its data", "internal/feed/idempotency.go", "text, err := json.Marshal(struct {", "c.Data = \"\"; text, err := json.Marshal(struct {"},
		{"an import counts records that it left out", imported, "v.leaveOut(r.Type, ref)", "_ = v.leaveOut"},
		{"a drop leaves letters and does not report it", letters, "if len(ids) == 0 && len(letters) == MaxDeadLetters {", "if false {"},
		{"a walk ends with the time limit of other calls", operation, "client.Timeout = 0", ""},
	}
}

// plant returns the bugs of these packages as mutants. It fails if the text of a bug no longer fits the
// source, or if the mutant does not compile.
func plant(sources map[string]*source, bugs []bug, match *regexp.Regexp) (mutants []mutant, err error) {
	for _, b := range bugs {
		s := sources[path.Dir(b.file)]
		if s == nil {
			continue
		}
		m, err := s.plant(b)
		if err != nil {
			return nil, err
		}
		if match.MatchString(m.key) {
			mutants = append(mutants, m)
		}
	}
	return mutants, nil
}

func (s *source) plant(b bug) (mutant, error) {
	text := s.texts[b.file]
	at := bytes.Index(text, []byte(b.old))
	m := mutant{file: b.file, offset: at, end: at + len(b.old), text: b.new, planted: true, key: b.file + ": planted: " + b.name}
	if n := bytes.Count(text, []byte(b.old)); n != 1 {
		return m, fmt.Errorf("%s: its text occurs %d times: plant the bug again", m.key, n)
	}
	for i, name := range s.names {
		if name != b.file {
			continue
		}
		file := s.fset.File(s.parsed[i].Pos())
		m.line = file.Line(file.Pos(at))
		for _, decl := range s.parsed[i].Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil && file.Offset(d.Body.Pos()) < at && m.end < file.Offset(d.End()) {
				m.in = d
			}
		}
	}
	if m.in == nil || !s.compiles(m) {
		return m, fmt.Errorf("%s: it is outside a function, or does not compile", m.key)
	}
	return m, nil
}
