package home

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"

	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Fan-out skips away readers: docs/HYBRID.md, section 2. A home read follows the reader's presence,
// and never the setting of its own process. The home misses no post (I1): each edge of the reader has
// a day at or after the presence's day, or no day, so each post up to the end of the presence's day
// was pushed. From the presence's day on, a home read rebuilds the entries, and the home is read by
// pull until the entries exist. The rebuild begins a day early, as a margin for clock skew.

const (
	// returnLinger is the time for which a home is read by pull after its return: a home read may have
	// read the entries before the return wrote them, and the presence afterwards.
	returnLinger = time.Minute
	// mostAhead is the maximum time before the presence's day at which a read requests a refresh.
	mostAhead = 7 * 24 * time.Hour
)

// byPull reports whether the reader's home is read by pull now. If the reader returns, byPull first
// records the return in the table, and then requests the entries. seen reports whether a worker has to
// date the reader's edges.
func (h *Homes) byPull(ctx context.Context, viewer string, p *schema.Presence) (pull, seen bool) {
	now := h.access.Now()
	switch {
	case p == nil:
		return false, h.access.ActiveDays != 0
	case h.access.Clock.Doubt() != nil:
		return true, false
	case p.State == schema.PresenceReturning:
		h.askForReturn(ctx, *p, h.reminders.allow("return of "+viewer))
		return true, false
	case !now.Before(p.Until.Start()):
		h.beginReturn(ctx, *p)
		return true, false
	}
	ahead := min(mostAhead, schema.DaysAhead(h.access.ActiveDays).Length()/2)
	return now.Sub(p.At) < returnLinger, p.Until.Start().Sub(now) < ahead
}

// beginReturn changes the presence to returning. If another read has changed the presence, or the
// table fails, the next read of the home continues the return. The gap begins after the last day whose
// posts were all pushed, or at the beginning of an older gap.
func (h *Homes) beginReturn(ctx context.Context, p schema.Presence) {
	next := schema.Presence{
		User: p.User, State: schema.PresenceReturning, Until: p.Until, V: p.V + 1, Lo: id.Floor((p.Until + 1).Start()),
	}
	if oldest, err := h.access.OldestShown(ctx); err != nil || p.Hi > oldest { // a wider gap is correct, too
		next.Lo = min(next.Lo, p.Lo)
	}
	_, err := h.access.Store.Put(ctx, table.PutInput{
		Item: next.Item(), If: table.Equal{Name: schema.AttrModeV, Value: table.N(p.V)},
	})
	if err != nil {
		if _, begun := errors.AsType[*table.ConditionError](err); !begun {
			h.access.Log.Warn("return not begun: the reader's next home read will begin it", zap.String("user_id", p.User), zap.Error(err))
		}
		return
	}
	h.reminders.allow("return of " + p.User)
	h.askForReturn(ctx, next, true)
}

// askForReturn publishes Returned if now is true.
func (h *Homes) askForReturn(ctx context.Context, p schema.Presence, now bool) {
	if !now {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, remindFor)
	defer cancel()
	msg, err := h.access.Message(ctx, &messages.Returned{UserID: p.User, V: p.V}, "")
	if err == nil {
		err = h.send(msg)
	}
	if err != nil {
		h.access.Log.Warn("return not requested: a later home read will request it", zap.String("user_id", p.User), zap.Error(err))
	}
}

// send publishes to the topic of backfills, so the topic of posts is not delayed.
func (h *Homes) send(msgs ...*message.Message) error {
	return panics.Catch(func() error { return h.access.Publisher.Publish(queue.TopicBackfills, msgs...) })
}

// inGap reports whether a span may contain posts of the gap.
func inGap(p *schema.Presence, of access.Span) bool {
	return p != nil && of.Low < p.Hi && (of.High == "" || p.Lo < of.High)
}
