package sim

// repostBugs are the bugs of reposts, one for each rule of docs/decisions/0063-reposts.md that a storm meets. ShownOnly
// has its counterexample in internal/feed alone, because it holds by the order of the reads.
func repostBugs() []bug {
	const (
		reposts = "internal/feed/reposts.go"
		refers  = "internal/feed/refers.go"
		types   = "internal/feed/types.go"
		items   = "internal/feed/items.go"
		publish = "internal/feed/publish.go"
		home    = "internal/feed/home/home.go"
		once    = "internal/feed/home/once.go"
		tells   = "internal/fanout/events.go"
		purge   = "internal/fanout/purge.go"
		posts   = "internal/feed/posts.go"
		kept    = "internal/feed/bookmarks.go"
		log     = "internal/feed/changes.go"
		changes = "internal/live/changes.go"
	)
	return []bug{
		{"later binding removed by an end", "I16", []edit{{reposts, `table.DeleteInput{Key: schema.RepostKey(user, post), If: boundTo(bound.R)}`, `table.DeleteInput{Key: schema.RepostKey(user, post)}`}}},
		{"repost published before its binding", "I16 I5 I2", []edit{{reposts, `living, err := s.bindRepost(ctx, &d)`, `if err := s.access.PublishPost(ctx, d.post); err != nil {
			return err
		}
		living, err := s.bindRepost(ctx, &d)`}}},
		{"binding of a repost without a condition", "I16 I2", []edit{{reposts, `Item: binding.Item(), If: boundTo(bound.R)}`, `Item: binding.Item(), If: table.Any{table.Absent{}, table.Exists{}}}`}}},
		{"binding of a living repost replaced", "I16", []edit{{reposts, `byID != nil && byID.Deleted {`, `byID != nil {`}}},
		{"end of an unwritten repost without its tombstone", "I2 I16", []edit{{reposts, `changed, err = s.buryUnmade(ctx, user, bound.R)`, `changed, err = false, nil`}}},
		{"binding removed before the tombstone", "I2 I16", []edit{{reposts, `bound, byID, err := s.boundRepost(ctx, user, post)
	switch {`, `bound, byID, err := s.boundRepost(ctx, user, post)
	if err == nil && bound.R != "" {
		if _, err = s.access.Store.Delete(ctx, table.DeleteInput{Key: schema.RepostKey(user, post)}); err != nil {
			return false, fault.Wrap("table", err)
		}
	}
	switch {`}}},
		{"repost written over its tombstone", "I2 I4", []edit{{publish, `{Put: &table.PutInput{Item: byID.Item(), If: table.Absent{}}},`, `{Put: &table.PutInput{Item: byID.Item(), If: table.Any{table.Absent{}, table.Equal{Name: schema.AttrUnmade, Value: table.N(1)}}}},`}}},
		{"cursor without the originals", "I16", []edit{{once, `s.Scope.Cursor(last + packed(s.once.Originals()))`, `s.Scope.Cursor(last + packed(s.once.Originals()[:0]))`}}},
		{"repeats leave out the posts after them", "I1 I7", []edit{{refers, `	for i, r := range living {
		if`, `	for i, r := range living[:min(missing, len(living))] {
		if`}}},
		{"memory of the reposts, not of the originals", "I16", []edit{{types, `	o.add(of.RepostOf)
	return true`, `	if of.RepostOf != "" {
		o.add(post)
	}
	return true`}}},
		{"rounds of a page that share no memory", "I16", []edit{{home, `h.items.FillUp(ctx, query.viewer(viewer), looked, missing)`, `h.items.FillUp(ctx, feed.Viewer{ID: viewer, Kept: query.View, Once: feed.NewOnce(nil)}, looked, missing)`}}},
		{"page of hidden posts that ends where it began", "I7 I1 stuck", []edit{{home, `before = looked[len(looked)-1].Post
		}`, `before = looked[len(looked)-1].Post
		}
		if len(items) == 0 && at.before != "" {
			return homePage(items, at.before, scope), nil
		}`}}},
		{"repost without its original shown", "I2 I16", []edit{{items, `if (it.Of != nil || it.Post.RepostOf == "") && viewer`, `if viewer`}}},
		{"repost of a muted author shown", "I2 I16", []edit{{items, `if !read.hidden[found[i].Author.ID] {`, `if true {`}}},
		{"repost that nobody counts", "I3", []edit{{tells, `		if err := w.count(ctx, *repost, m.post.PostID, m.requestID); err != nil {
			return err
		}
`, ``}}},
		{"repost counted though it was never made", "I3", []edit{{tells, `m.post.RepostOf != "" && m.living`, `m.post.RepostOf != ""`}}},
		{"end of a repost counted by nobody if its process dies", "I3", []edit{{purge, `	if ref.RepostOf == "" {`, `	if ref.Deleted {`}}},
		{"repost counted by its user", "I3", []edit{{"messages/reactions.go", `UserID: Reposter(e.RepostID)`, `UserID: Reposter(e.UserID)`}}},
		{"reposted without a look at the repost", "I16", []edit{{kept, `	for repost := range living {`, `	for repost := range bound {`}}},
		{"post that is never marked as referred to", "I2", []edit{{refers, `	if of.Referred {`, `	if of.Referred || s != nil {`}}},
		{"deletion of a referred post noted as of any other", "I2", []edit{{log, `Deleted: true, Referred: of.Referred}`, `Deleted: true}`}}},
		{"edit of a referred post noted as of any other", "I2", []edit{{log, `return err != nil || now.Referred`, `return err != nil || now.Referred && s == nil`}, {log, `	if edited.Referred {`, `	if edited.Referred && s == nil {`}}},
		{"changes of referred posts told to their authors' readers only", "I2", []edit{{changes, `	if !c.referred {`, `	if c.referred || !c.referred {`}}},
		{"repost older than its original", "I16", []edit{{publish, `read.after, of.RepostOf)`, `read.after)`}}},
	}
}
