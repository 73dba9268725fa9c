package sim

import (
	"slices"
	"strings"
)

// crashPoints returns the calls at which a process can die, by role, operation and kind of
// partition. Each call is a durable step of the product, or a read before such a step. A run of
// many seeds fails if no process was killed before and after each crash point, or if a call is
// missing in this list.
func crashPoints() []string {
	var all []string
	for _, of := range []struct {
		role  string
		calls []string
	}{
		{"api", []string{
			"batch_get block", "batch_get bookmark", "batch_get follower", "batch_get following", "batch_get home", "batch_get likecount", "batch_get notif", "batch_get likelist", "batch_get marker", "batch_get post", "batch_get post by id", "batch_get user", "batch_get timeline", "get block", "get bookmark", "get comment", "get delivery", "get marker", "get idempotency", "get lifetimes", "get likelist", "get post", "get post by id", "batch_get repost", "query repost", "get repost", "put repost", "delete repost",
			"get user", "publish backfills", "publish likes", "publish posts", "put changes", "put home", "put idempotency", "put lifetimes", "put marker", "put post by id", "put user", "query bookmark", "query changes", "query comment",
			"get notif", "publish notices", "put notif", "query block", "query delivery", "query follower", "query following", "query home", "query like", "query likelist", "query marker", "query notif", "query post", "query posts made", "query timeline", "query user",
			"transact block", "transact bookmark", "transact comment", "transact follower", "transact home", "transact post", "transact user", "update post", "update post by id", "update user", "delete marker",
		}},
		{"fanout", []string{
			"batch_get block", "batch_get following", "batch_get user", "batch_write comment", "batch_write likelist", "batch_write timeline", "dead_letter backfills", "dead_letter chunks", "dead_letter notices", "dead_letter posts",
			"delete marker", "get comment", "get delivery", "get home", "get lifetimes", "get post by id", "get post", "get user", "publish backfills", "publish chunks", "publish likes", "publish notices", "batch_write notif", "delete notif", "put delivery", "put home", "put lifetimes", "put user",
			"query block", "query bookmark", "query comment", "query delivery", "query follower", "query following", "query home", "query like", "query likelist", "query marker", "query notif", "query post", "query repost", "query timeline", "query user",
			"send events", "transact block", "transact bookmark", "transact comment", "transact follower", "transact home", "transact post", "transact timeline", "transact user", "update delivery", "update follower", "update home",
			"update likecount", "update post by id", "update post", "update user",
		}},
		{"likeagg", []string{
			"batch_get like end", "batch_get user", "dead_letter likes", "get likecount", "get likelist", "get post by id", "put like end", "put likelist", "send events",
			"publish notices", "update likecount",
		}},
		{"notify", []string{"batch_get home", "batch_get notif", "dead_letter notices", "delete notif", "put notif", "send events"}},
		{mover, []string{"read", "write"}},
		{"audit", []string{"batch_get", "get", "publish", "put", "query", "scan", "transact"}},
	} {
		for _, call := range of.calls {
			all = append(all, of.role+" "+call)
		}
	}
	return all
}

// point returns the crash point of a call. The crash point of an audit's call is the operation
// alone: an audit reads all kinds of items, and its calls are not steps of a protocol. The commands
// that move a network write all kinds of items, and only a few worlds run these commands.
func (c *call) point() string {
	if c.proc.role == mover {
		if strings.Contains(c.class, "get ") || strings.HasPrefix(c.class, "query ") || strings.HasPrefix(c.class, "scan ") {
			return mover + " read"
		}
		return mover + " write"
	}
	if c.proc.role == "audit" {
		op, _, _ := strings.Cut(c.class, " ")
		if op == "update" { // a repair that counts likes makes this call, which is as rare as the repair's puts
			op = "put"
		}
		return "audit " + op
	}
	if c.proc.role == "fanout" && c.class == "put post by id" { // the tombstone of a repost that no worker has written, in a removal: some seed in thousands
		return "fanout put home"
	}
	return c.proc.role + " " + c.class
}

// target is a crash point that a seed aims at, before or after the effect of a call.
type target struct {
	point string
	skip  int // calls that pass
	after bool
}

// rarePoints returns the crash points that few seeds reach in a storm. A point that at most one
// seed in ten reaches occurs several times in the list.
func rarePoints() []string {
	rare := []string{
		"api batch_get block", "api batch_get bookmark", "api batch_get home", "api batch_get marker", "api batch_get post by id", "api batch_get user", "api get bookmark", "api get lifetimes",
		"api get post", "api put changes", "api put lifetimes", "api put marker", "api put post by id", "api put user", "api query bookmark", "api query comment", "api query like", "api query marker", "api transact block", "api transact bookmark", "api transact comment",
		"api transact home", "api transact user", "api update post", "api update post by id", "api update user", "audit publish", "audit put", "fanout batch_get block", "fanout batch_get following", "fanout batch_get user", "fanout batch_write comment",
		"fanout batch_write likelist", "fanout dead_letter backfills", "fanout dead_letter chunks", "fanout dead_letter posts", "fanout get comment", "fanout get lifetimes",
		"fanout get user", "fanout publish backfills", "fanout publish chunks", "fanout put lifetimes", "fanout query block", "fanout query bookmark", "fanout query delivery",
		"fanout query home", "fanout query like", "fanout query marker", "fanout query notif", "fanout transact block", "fanout transact bookmark", "fanout transact comment", "fanout transact follower", "fanout transact post", "fanout transact user",
		"fanout update home", "fanout update post", "fanout update post by id", "fanout update user", "likeagg batch_get like end", "likeagg batch_get user", "likeagg put like end", "notify batch_get home",
		"api query likelist", "fanout update likecount", "likeagg dead_letter likes", "likeagg send events",
		"api batch_get repost", "api query repost", "api get repost", "api put repost", "api delete repost", "fanout query repost", "api batch_get follower", "api get notif", "api put notif", "api publish notices", "fanout batch_write notif", "fanout publish notices", "fanout update follower", "likeagg publish notices", "notify put notif", "notify send events",
	}
	rarest := []string{
		"api batch_get timeline", "api get delivery", "api get marker", "api query delivery",
		"api delete marker", "api get comment", "api get idempotency", "api put home", "api query block", "api query follower", "fanout dead_letter notices", "fanout delete notif", "fanout publish likes", "fanout put home",
		"fanout put user", "notify dead_letter notices", "notify delete notif", "fanout delete notif", mover + " write",
		"fanout delete marker", "fanout transact home", "fanout transact timeline",
	}
	return slices.Concat(rare, rarest, rarest, rarest, rarest)
}

// aims is the number of crash points that a seed aims at among all points, and rareAims is the
// number among the rare points. So of 1,000 seeds at least 40 aim at each rare point before its
// effect, 40 after its effect, and 200 aim at each of the rarest points.
const aims, rareAims = 3, 13

func (w *World) aim() {
	if w.off[FaultCrash] {
		return
	}
	at := func(points []string, n, skip int) {
		w.targets = append(w.targets, target{points[n%len(points)], skip, n/len(points)%2 == 1})
	}
	for i := range aims {
		at(crashPoints(), int(w.seed/2)*aims+i, max(0, w.rng.IntN(8)-5))
	}
	for i := range rareAims {
		at(rarePoints(), int(w.seed/2)*rareAims+i, 0)
	}
	if w.shape.Mix == crowd { // a chunk that is stored, but not sent yet
		w.targets = append(w.targets, target{"fanout publish chunks", w.rng.IntN(8), false})
	}
}

// aimedAt reports whether the seed kills the process at a crash point, and whether the kill happens
// after the effect. The seed also kills in quiet times, because a storm makes some calls rarely.
func (w *World) aimedAt(point string) (aimed, after bool) {
	for i, t := range w.targets {
		if t.point != point {
			continue
		}
		if w.targets[i].skip--; t.skip <= 0 {
			w.targets = slices.Delete(w.targets, i, i+1)
			return true, t.after
		}
	}
	return false, false
}
