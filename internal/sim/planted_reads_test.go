package sim

// readBugs returns the planted bugs of reads, of the newer part of a home and of explain.
func readBugs() []bug {
	const (
		follows = "internal/feed/follows.go"
		users   = "internal/feed/view/users.go"
		lists   = "internal/feed/home/lists.go"
		news    = "internal/feed/home/news.go"
		explain = "internal/feed/home/explain.go"
	)
	return []bug{
		{"relationship read behind", "I7", []edit{{follows, `found, err := s.access.BatchGet(ctx, keys, true)`, `found, err := s.access.BatchGet(ctx, keys, false)`}}},
		{"list of follows read behind", "I7", []edit{{follows, `query: table.Query{PK: pk, Consistent: true}`, `query: table.Query{PK: pk}`}}},
		{"view with its follows the wrong way round", "I7", []edit{{users, `following[user], followers[user]}`, `followers[user], following[user]}`}}},
		{"news with the post that they are newer than", "I7", []edit{{lists, `max(oldest, after+access.Behind)`, `max(oldest, after)`}}},
		{"news that count older posts", "I7", []edit{{news, `of, err := h.newerThan(ctx, query.After)`, `of, err := h.newerThan(ctx, "")`}}},
		{"tag of news without their posts", "I1 I2", []edit{{news, `		fmt.Fprintln(h, item.Post.ID)`, `		_ = item`}}},
		{"explain of a repost without its original", "I1 I16", []edit{{"internal/feed/home/explainonce.go", `if !shows && e.RepostOf != "" {`, `if !shows && e.RepostOf != "" && false {`}}},
		{"explain without the newer references", "I16", []edit{{"internal/feed/home/explainonce.go", `if p.Post().RepostOf == cmp.Or(e.RepostOf, e.Post) {`, `if p.Post().RepostOf == cmp.Or(e.RepostOf, e.Post) && false {`}}},
		{"explain by the mute of an author who is not followed", "I1", []edit{{explain, `case muted && follows && e.Post >= edge.From:`, `case muted && !follows:`}}},
	}
}
