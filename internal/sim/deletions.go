package sim

import (
	"errors"
	"fmt"
	"slices"

	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Each deletion of a post requests one purge: the call whose transaction made the tombstone, or may
// have made it, publishes PostDeleted once. No other call publishes PostDeleted, because a user who
// repeats a deletion could fill the queue (I11). The audit in this world does not tidy, so it
// requests no purge.

// deletion is a transaction of an operation that deletes a post.
type deletion struct{ op, post string }

// deletions has the calls that have deleted a post and not requested its purge yet.
type deletions map[deletion]*call

// buried returns the post that a transaction deletes, "" if it deletes none.
func buried(ops []table.TransactOp) string {
	for _, op := range ops {
		if op.Put == nil || op.Put.Item.Int(schema.AttrDeleted) == 0 {
			continue
		}
		if ref, err := schema.ParsePostRef(op.Put.Item); err == nil {
			return ref.ID
		}
	}
	return ""
}

// sawAnswer handles the answer to a call. The call may be a deletion, which has made the tombstone
// unless it was cancelled, or the send of the message that requests the purge.
func (w *World) sawAnswer(c *call, err error) {
	switch told := c.sent.(type) {
	case *messages.Commented:
		w.notices.asked[told.CommentID] = true
	case *messages.Unfollowed:
		w.notices.asked[told.MarkVersion] = true
	case *messages.Reposted:
		w.notices.asked[told.RepostID] = w.notices.asked[told.RepostID] || told.Deleted
	}
	if purge, ok := c.sent.(*messages.PostDeleted); ok {
		of := deletion{c.op, purge.PostID}
		if w.deletions[of] == nil {
			w.load.fail("I11", "%s asks for the purge of post %s, and has not deleted it, or has asked before", c.op, purge.PostID)
		}
		delete(w.deletions, of)
	}
	if _, cancelled := errors.AsType[*table.CancelledError](err); cancelled {
		return
	}
	if post := buried(c.ops); post != "" {
		w.sawEndOfRepost(c, post)
		c.life = c.proc.life
		w.deletions[deletion{c.op, post}] = c
	}
}

// sawPurge notes the posts whose purge was requested.
func (w *World) sawPurge(op string, payload []byte) {
	if e, ok := decoded(payload).(*messages.PostDeleted); ok {
		w.purges[e.PostID] = op
	}
}

// keepPurge drops the request of an earlier operation when a later operation deletes the post. The
// earlier operation has deleted nothing, and its event has no effect on a living post. An operation
// whose transaction takes effect late makes a request of its own.
func (w *World) keepPurge(post string) {
	if w.acting == nil || w.acting.op != w.purges[post] {
		delete(w.purges, post)
	}
}

// checkDeletions checks, once the world is quiet, that each deletion has requested its purge,
// unless the process died.
func (w *World) checkDeletions() {
	var left []string
	for of, c := range w.deletions {
		if !c.life.over && !c.proc.asleep {
			left = append(left, fmt.Sprintf("%s has deleted post %s, and has not asked for the purge", of.op, of.post))
		}
	}
	slices.Sort(left)
	for _, text := range left {
		w.load.fail("I11", "%s", text)
	}
}
