package sim

// moveBugs returns the planted bugs of the commands that move a network, and of repairs beside
// traffic (docs/IMPORT.md).
func moveBugs() []bug {
	const (
		record = "internal/ops/transfer/record.go"
		export = "internal/ops/transfer/export.go"
		made   = "internal/feed/import.go"
		again  = "internal/feed/delivery/reconcile.go"
		lines  = "internal/ops/transfer/import.go"
	)
	return []bug{
		{"imported post with an id of the run", "I5 I7", []edit{{record, `	return id.Named(r.Time, string(r.Type)+"\x00"+r.ID)`, `	return id.Named(r.Time, string(r.Type)+time.Now().String()+r.ID)`}}},
		{"imported comment counted in each run", "I4 audit", []edit{{made, `Put: &table.PutInput{Item: stored.Item(), If: table.Absent{}}}`, `Put: &table.PutInput{Item: stored.Item()}}`}}},
		{"export of the first like shard", "I5", []edit{{export, `for shard := range p.LikeShards {`, `for shard := range min(1, p.LikeShards) {`}}},
		{"export of a follow without its first post", "I5 I1", []edit{{export, `	from := edge.From
`, `	from := id.Min
`}}},
		{"export of bookmarks whose posts it lacks", "I5", []edit{{"internal/ops/transfer/kept.go", `_, written[post] = e.posts[hashOf(post)]`, `written[post] = true`}}},
		{"export of reposts whose originals it lacks", "I5", []edit{{export, `if err == nil && living[originals[i]] {`, `if err == nil && (living[originals[i]] || true) {`}}},
		{"export of a quote without its original", "I5", []edit{{export, `if living[p.QuoteOf] {`, `if living[p.QuoteOf] && false {`}}},
		{"quote imported before its original", "I5", []edit{{lines, `for of := r.QuoteOf; of`, `for of := ""; of`}}},
		{"repost imported without its binding", "I5 I16", []edit{{made, `}, &table.PutInput{Item: binding.Item(), If: boundTo(bound.R)})`, `}, nil)`}}},
		{"reconcile that leaves posts without a plan", "I1 I6", []edit{{again, `progress.State != Queued && progress.State != Running`, `progress.State != Running`}}},
	}
}
