package sim

import (
	"slices"
	"time"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// An author whose mode changes is between two states until a mark walk has ended. The post that
// changed the mode sends the walk, and so does each later post that finds the walk unfinished
// (docs/HYBRID.md). So once the world is quiet no walk is unfinished, with two exceptions: no
// living post of the author was handled since the change; or the walk's message is a dead letter
// that is too old for a redrive.

// modeChange is a change of an author's mode whose walk has not ended.
type modeChange struct {
	state schema.ModeState
	v     int64
	step  int    // the step in which the mode was stored
	by    string // the handling that stored the mode
	// owed is the handling that ended although the walk had not ended, "" for none. That handling sent the
	// walk, or has to send it again.
	owed string
}

// modes has the changes whose walks are unfinished, by author.
type modes map[string]modeChange

// wrote records an item that the handling by wrote.
func (m modes) wrote(key table.Key, it *table.Item, step int, by string) error {
	author, _ := schema.UserOfSK(key.PK) // UserPK is the same text
	if it == nil || key != schema.ModeKey(author) {
		return nil
	}
	mode, err := schema.ParseMode(author, []table.Item{*it})
	if err != nil {
		return err
	}
	if mode.State == schema.ModePush || mode.State == schema.ModePull {
		delete(m, author)
	} else if m[author].v != mode.V {
		m[author] = modeChange{state: mode.State, v: mode.V, step: step, by: by}
	}
	return nil
}

// handled records the end of the handling of a message. A post that was deleted, may have ended, or became a
// dead letter requests no walk.
func (w *World) handled(q *queueState, m *queued, by string) {
	post, ok := decoded(m.payload).(*messages.PostCreated)
	if !ok || w.tombs[post.PostID] > 0 || slices.ContainsFunc(q.dead, func(d queue.DeadLetter) bool { return d.ID == m.id }) {
		return
	}
	if end := post.End(); !end.IsZero() && time.Until(end) < clocksMost {
		return
	}
	if c, changing := w.modes[post.AuthorID]; changing && (c.by == by || w.began[by] > c.step) {
		c.owed = by
		w.modes[post.AuthorID] = c
	}
}

// checkModes checks that no walk remains unfinished (I6).
func (w *World) checkModes() {
	lost := map[string]bool{} // authors whose walk is a dead letter
	for _, d := range w.queue(queue.TopicBackfills).dead {
		if walk, ok := decoded(d.Payload).(*messages.MarkWalk); ok {
			lost[walk.AuthorID] = true
		}
	}
	for _, author := range sorted(w.modes) {
		if c := w.modes[author]; c.owed != "" && !lost[author] {
			w.load.fail("I6", "the mode of %s rests at %s (v %d), though %q was done with a post since", author, c.state, c.v, c.owed)
		}
	}
}

// actor returns the name of the operation or message whose call takes effect now, "" if there is
// none.
func (w *World) actor() string {
	if w.acting == nil {
		return ""
	}
	return w.acting.op
}
