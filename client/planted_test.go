package client_test

import (
	"testing"

	"fanfare/internal/planttest"
)

// clienttest and the tests of the product use one model, internal/oracle, so a wrong belief of the model would be in all of
// them. The rows of the contract, which also run against the product, find each of these bugs of the model.
func TestTheContractFindsABugOfTheOracle(t *testing.T) {
	t.Parallel()
	root := planttest.Root(t)
	for name, bug := range map[string]struct{ old, now, row string }{
		"a block ends one of two follows":             {"f.Follows.End(user, other, at)", "", "a_block_ends_the_follow"},
		"a block of the other user is no block":       {" || f.Blocks.Has(other, user)", "", "follow_of_one_who_blocks"},
		"a removal ends the blocks by others":         {"pair[0] == user })\n\t}", "pair[0] == user || pair[1] == user })\n\t}", "the_block_of_a_removed_user"},
		"a home shows muted authors":                  {" || f.Mutes.Has(viewer, p.AuthorID)", "", "a_mute_hides_at_once"},
		"a post shows once for each reference":        {"seen[f.Original(p.ID)] = true", "", "a_repost_in_a_home"},
		"a repost shows without its original":         {"f.Posts[post].RepostOf == \"\" || ", "true || ", "a_view_of_a_repost_over_a_block"},
		"a bookmark over a block is shown":            {"&& f.Open(user, pair[1]) == 0", "&& f.Living(pair[1]) == 0", "a_block_hides_bookmarks"},
		"a bookmark of a deleted post is shown":       {"&& f.Open(user, pair[1]) == 0", "&& f.Blocked(user, f.Posts[pair[1]].AuthorID) == 0", "a_deletion_hides_the_bookmark"},
		"a marker moves back":                         {"if position > f", "if position != f", "marker_back_changes_nothing"},
		"anybody may change a post":                   {"return Forbidden", "return 0", "edit_somebody_else's"},
		"the oldest post of a list stands first":      {"slices.Backward(byKey(f.Posts))", "byKey(f.Posts)", "posts_by_user"},
		"a list of a kind has reactions of all kinds": {" && r.Kind != kind", " && r.Kind == \"\"", "reactions_of_a_kind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overlay := planttest.Overlay(t, root, []planttest.Edit{{File: "internal/oracle/oracle.go", Old: bug.old, New: bug.now}})
			planttest.MustFail(t, planttest.Build(t, overlay), "TestClienttestKeepsTheContract", "--- FAIL: TestClienttestKeepsTheContract/"+bug.row, 1)
		})
	}
}
