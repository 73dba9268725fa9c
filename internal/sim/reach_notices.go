package sim

import (
	"strings"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// noticeStates returns the rare states of notifications.
func noticeStates() []string {
	return []string{
		"six users in one notification",
		"a full notification of take-backs",
		"an action holds again and keeps its place",
		"a mark between a worker's read and its put",
		"two workers put one notification",
		"a process drops a notice because notifications are off",
	}
}

// noticeReach recognises the rare states of notifications.
type noticeReach struct {
	users map[table.Key]map[string]bool // users by notification
	// reads has, by process, the notifications that workers have read. The value is true once the
	// user has marked the notifications.
	reads map[string]map[table.Key]bool
}

func newNoticeReach() noticeReach {
	return noticeReach{map[table.Key]map[string]bool{}, map[string]map[table.Key]bool{}}
}

// noticeRead handles a read by a worker.
func (r *reach) noticeRead(e event) {
	if r.notices.reads[e.by] == nil {
		r.notices.reads[e.by] = map[table.Key]bool{}
	}
	r.notices.reads[e.by][e.key] = false
}

func (r *reach) noticeWritten(e event) {
	if e.now == nil {
		return
	}
	if !strings.HasPrefix(e.key.SK, schema.SortNotice) { // the item is the mark
		for _, keys := range r.notices.reads {
			for key := range keys {
				keys[key] = keys[key] || key.PK == e.key.PK
			}
		}
		return
	}
	r.when(r.notices.reads[e.by][e.key], "a mark between a worker's read and its put")
	delete(r.notices.reads[e.by], e.key)
	n, err := schema.ParseNotice(*e.now)
	if err != nil {
		return // the oracle reports it
	}
	var was schema.Notice
	if e.old != nil {
		was, _ = schema.ParseNotice(*e.old) // the oracle also reports a notification that does not parse
	}
	users, holds := r.notices.users[e.key], false
	if users == nil {
		users = map[string]bool{}
		r.notices.users[e.key] = users
	}
	for _, act := range n.Acts {
		old, kept := was.Find(act)
		r.when(kept && !old.Holds() && act.Holds() && old.Place != "" && old.Place == act.Place, "an action holds again and keeps its place")
		r.when(!users[act.User] && len(users) == schema.NoticeActs, "six users in one notification")
		users[act.User], holds = true, holds || act.Holds()
	}
	r.when(len(n.Acts) == schema.NoticeActs && !holds, "a full notification of take-backs")
}
