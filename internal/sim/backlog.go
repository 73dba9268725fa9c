package sim

import (
	"time"

	"fanfare/internal/id"
	"fanfare/messages"
)

// backlog is the time for which messages of the leaver wait in some worlds: the posts and likes, which then arrive
// after the last look of a removal, or the take-backs of likes.
const backlog = 2 * time.Hour

func (l *lives) isBacklog(seed uint64, payload []byte) bool {
	if !l.on || seed%3 > 1 {
		return false
	}
	e := decoded(payload)
	if post, ok := e.(*messages.PostCreated); ok {
		return seed%3 == 0 && post.AuthorID == leaver
	}
	like, kind, ok := messages.ActionOf(e)
	return ok && (kind != "") == (seed%3 == 0) && like.UserID == leaver
}

// walks are the walks over the leaver's likes by one life of a process, for the removal of a time.
type walks struct {
	of      *life
	removal time.Time
}

// mostTakeBacks is more than the number of walks that send take-backs in backlog, at longer and longer intervals.
const mostTakeBacks = 30

// sawTakeBack checks that no removal sends the same take-back again and again to aggregators that are behind (I11).
func (w *World) sawTakeBack(by *life, payload []byte) {
	e, ok := decoded(payload).(*messages.Unliked)
	if !ok || e.UserID != leaver {
		return
	}
	at, err := id.Time(e.EventID)
	of := walks{by, at}
	if w.lives.walks[of]++; err != nil || w.lives.walks[of] == mostTakeBacks {
		w.load.fail("I11", "the removal of %v has sent %d take-backs of one like: %v", at, mostTakeBacks, err)
	}
}
