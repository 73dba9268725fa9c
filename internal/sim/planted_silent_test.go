package sim

// silentBugs returns the planted bugs of silent follows, one bug for each rule (docs/decisions/0064).
func silentBugs() []bug {
	const (
		follows = "internal/feed/follows.go"
		edges   = "internal/feed/edges.go"
	)
	return []bug{
		{"silent follow that counts", "I4", []edit{{edges, `	if silent {
		update.Add`, `	if silent && n < 0 {
		update.Add`}}},
		{"end of a silent follow leaves its count", "I4", []edit{{"internal/feed/unfollows.go", `-1, now.isSilent())`, `-1, false)`}}},
		{"silent follow under one user alone", "I4", []edit{{follows, `under, edge = schema.SilentEdge(under), schema.SilentEdge(edge)`, `edge = schema.SilentEdge(edge)`}}},
		{"silent follow that notifies", "I13", []edit{{follows, `	if !silent { // a mark`, `	if true { // a mark`}}},
		{"notification that shows a silent follower", "I13", []edit{{"internal/feed/notices/look.go", `followers, schema.AttrSilent)`, `followers)`}}},
		{"notification that counts silent followers", "I13", []edit{{"internal/feed/users.go", `c.Followers - c.Silent, c.Following`, `c.Followers, c.Following`}}},
		{"lists with silent follows", "I4", []edit{{follows, `own || !e.Silent, err`, `own || true, err`}}},
		{"silent follows hidden from their user", "I4", []edit{{follows, `in, viewer == user)`, `in, false)`}}},
		{"silent friends", "I4", []edit{{"internal/feed/friends.go", `if !next[0].Silent && !next[1].Silent {`, `if !next[0].Silent {`}}},
		{"relationship with a silent follow", "I4 I7", []edit{{follows, `followedBy && (viewer == other || `, `followedBy && (true || `}}},
		{"view of a silent follower", "I7", []edit{{"internal/feed/view/users.go", `users, schema.AttrSilent)`, `users)`}}},
		{"renewed follow with the silence of the former life", "I4", []edit{{follows, `if now.silent != now.isSilent() {`, `if false {`}, {follows, `	if now.silent {
		item = schema`, `	if now.isSilent() {
		item = schema`}}},
		{"silence lost in an import", "I4 I5", []edit{{"internal/feed/import.go", `now.silent = in.Silent`, `now.silent = false`}}},
		{"silence lost in an export", "I5", []edit{{"internal/ops/transfer/export.go", `Time: edge.Since, Silent: edge.Silent}`, `Time: edge.Since}`}}},
	}
}
