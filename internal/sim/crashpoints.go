package sim

// crashPoints are the calls at which a process can die, by role, operation and kind
// of partition: each is a durable step of the product, or a read before one. A run
// of many seeds fails if a process was not killed before and after each of them, or
// met one that is not listed.
func crashPoints() []string {
	var all []string
	for _, of := range []struct {
		role  string
		calls []string
	}{
		{"api", []string{
			"batch_get following", "batch_get likecount", "batch_get likelist", "batch_get post", "delete comment", "get comment", "get likelist", "get post", "get post by id",
			"get user", "publish backfills", "publish likes", "publish posts", "put comment", "put idempotency", "put user", "query comment",
			"query following", "query home", "query like", "query post", "query timeline", "query user",
			"transact follower", "transact post", "update post",
		}},
		{"fanout", []string{
			"batch_write comment", "batch_write likelist", "batch_write timeline", "dead_letter backfills", "dead_letter chunks", "dead_letter posts",
			"get delivery", "get home", "get post", "get post by id", "publish backfills", "publish chunks", "put delivery", "put home", "put user",
			"query comment", "query delivery", "query follower", "query likelist", "query post", "query timeline", "query user",
			"transact post", "transact timeline", "update delivery", "update home", "update likecount", "update user",
		}},
		{"likeagg", []string{
			"batch_get like end", "dead_letter likes", "get likecount", "get likelist", "get post by id", "put like end", "put likelist",
			"update likecount",
		}},
	} {
		for _, call := range of.calls {
			all = append(all, of.role+" "+call)
		}
	}
	return all
}
