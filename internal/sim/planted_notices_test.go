package sim

// noticeBugs returns the planted bugs of notifications, one bug for each rule
// (docs/decisions/0049).
func noticeBugs() []bug {
	const (
		item    = "internal/schema/notices.go"
		merge   = "internal/notify/merge.go"
		write   = "internal/notify/write.go"
		collect = "internal/notify/collect.go"
		list    = "internal/feed/notices/list.go"
		comment = "internal/feed/comments.go"
		edges   = "internal/feed/edges.go"
		end     = "internal/feed/unfollows.go"
		posts   = "internal/feed/posts.go"
		tells   = "internal/fanout/events.go"
		marks   = "internal/feed/notices/mark.go"
	)
	return []bug{
		{"notification put without its revision", "I13 I14", []edit{{write, `	_, err := wr.cfg.Store.Put(ctx, table.PutInput{Item: n.Item(), If: unchanged})`, `	unchanged = nil
	_, err := wr.cfg.Store.Put(ctx, table.PutInput{Item: n.Item(), If: unchanged})`}}},
		{"take-back that removes its entry", "I13", []edit{{merge, `	slices.SortFunc(merged.Acts, func(a, b schema.Act) int {`, `	if held := slices.DeleteFunc(slices.Clone(merged.Acts), func(a schema.Act) bool { return !a.Holds() }); len(held) > 0 {
		merged.Acts = held
	}
	slices.SortFunc(merged.Acts, func(a, b schema.Act) int {`}}},
		{"take-backs dropped first", "I13", []edit{{merge, `	merged.Acts = merged.Acts[:min(len(merged.Acts), schema.NoticeActs)]`, `	for len(merged.Acts) > schema.NoticeActs {
		drop := len(merged.Acts) - 1
		for i, act := range merged.Acts {
			if !act.Holds() {
				drop = i
			}
		}
		merged.Acts = slices.Delete(merged.Acts, drop, drop+1)
	}`}}},
		{"notices acked before the put", "I13", []edit{{collect, `		var result Result
		err := panics.Catch(`, `		var result Result
		for _, a := range w.actions {
			a.msg.Ack()
		}
		err := panics.Catch(`}}},
		{"last message of a notification wins", "I13", []edit{{merge, `		if !act.Replaces(old) {`, `		if act.Version == old.Version && !act.Replaces(old) {`}}},
		{"notification listed only if an entry holds", "I13", []edit{{item, `	case highest != "" || len(n.Acts) < NoticeActs:`, `	case len(n.Acts) <= NoticeActs:`}}},
		{"place by the clock alone", "I14", []edit{{write, `wr.cfg.IDs.After(max(above, now.mark, now.after))`, `wr.cfg.IDs.After("")`}}},
		{"place below the mark", "I14", []edit{{write, `max(above, now.mark, now.after)`, `max(above, now.after)`}}},
		{"place without random bits of its own", "I7", []edit{{write, `			return made
`, `			at, _ := id.Time(made)
			return id.Floor(at)
`}}},
		{"mark lowered by a second device", "I14", []edit{{marks, `Value: mark.Get(schema.AttrReadTo)}`, `Value: table.S("~")}`}}},
		{"hidden notifications left out of the mark", "I14", []edit{
			{list, `			part, r.top = all[:min(r.size, len(all))], all[0].place`, `			part = all[:min(r.size, len(all))]`},
			{list, `		r.shown += len(part)`, `		if r.top == "" && len(part) > 0 {
			r.top = part[0].place
		}
		r.shown += len(part)`},
		}},
		{"mark at most now", "I14", []edit{{list, `cmp.Or(r.top, r.mark, id.Min)`, `cmp.Or(min(r.top, id.Floor(r.n.access.Now())), r.mark, id.Min)`}}},
		{"like given again gets a new place", "I14", []edit{{merge, `		act.Place, held = old.Place, old.Holds()`, `		if act.Place, held = old.Place, old.Holds(); !held {
			act.Place = ""
		}`}}},
		{"muted user's entry without a place", "I13", []edit{
			{merge, `	if act.Holds() && !held && leftOut(act) {`, `	if act.Holds() && !held && leftOut(act) && i < -1 {`},
			{merge, `		if act.Holds() && act.Place == "" {`, `		if act.Holds() && act.Place == "" && !rules.LeftOut(act) {`},
		}},
		{"place by a clock in doubt", "I14", []edit{{write, `	if doubt := wr.cfg.Clock.Doubt(); doubt != nil {`, `	if doubt := wr.cfg.Clock.Doubt(); doubt != nil && n.User == "" {`}}},
		{"worker that slept puts a notification", "I13", []edit{{write, `left := longestStep - `, `left := 100_000*longestStep - `}}},
		{"comment told after its transaction", "I13", []edit{
			{comment, `	s.noticeComment(ctx, byID, c)
	write := `, `	write := `},
			{comment, `		return Comment{}, fault.Wrap("table", err)
	}
	return commentOf(c), nil`, `		return Comment{}, fault.Wrap("table", err)
	}
	s.noticeComment(ctx, byID, c)
	return commentOf(c), nil`},
		}},
		{"end of a follow takes nothing back", "I13", []edit{{end, `	if !now.forgets {`, `	if now.forgets {`}}},
		{"end of a follow is not looked up", "I13", []edit{{write, `	case !early || a.comment != "":`, `	case !early || a.comment == "":
		return true, false
	case a.comment != "":`}}},
		{"end of a follow that the table shows is dropped", "I13", []edit{{write, `	return ended && version >= a.act.Version,`, `	return ended && version > a.act.Version,`}}},
		{"repost told to nobody", "I13", []edit{{tells, `		notices = append(notices, repost)
`, ``}}},
		{"end of a repost takes nothing back", "I13", []edit{{posts, `	if last.RepostOf != "" {`, `	if last.RepostOf == post {`}}},
		{"end of a repost told after its transaction", "I13", []edit{{posts, `		s.takeBack(ctx, reposted(last, true))`, `		defer s.takeBack(ctx, reposted(last, true))`}}},
		{"end of a repost is not looked up", "I13", []edit{{write, `		return (there && !ended) == a.act.Holds(), ended`, `		return there || !ended, false`}}},
		{"version of a follow by the clock alone", "I13", []edit{{edges, `	return s.access.IDs.After(after)`, `	return s.access.IDs.New()`}}},
		{"notifications served while they are off", "I13", []edit{{"internal/feed/notices/notices.go", `	if n.on {`, `	if n != nil {`}}},
		{"cursor of notifications by number", "I7 I14", []edit{
			{list, `	"slices"
`, `	"fmt"
	"slices"
	"strconv"
`},
			{list, `Descending: true, After: after}`, `Descending: true, After: r.place(ctx, after)}`},
			{list, `func(of Notice) string { return of.place })`, `func(Notice) string { number, _ := strconv.Atoi(after); return fmt.Sprintf("%026d", number+r.size) })`},
			{list, `// prepare reads`, `// place returns the place of the notification of a number.
func (r *reader) place(ctx context.Context, after string) (place string) {
	number, _ := strconv.Atoi(after)
	q := table.Query{Index: true, PK: schema.NoticesPK(r.user), Descending: true}
	for read, err := range r.n.access.Store.Query(ctx, q) {
		for _, it := range read.Items {
			if number--; err == nil && number >= 0 {
				place = it.Str(table.AttrGSI1SK)
			}
		}
	}
	return place
}

// prepare reads`},
		}},
	}
}
