package live

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
)

// userHome is a home with open streams.
type userHome struct {
	hub  *Hub
	user string
	// open has the number of open streams of each service, and of the user's own streams under "". Hub.mu
	// guards open.
	open map[string]int
	ctx  context.Context //nolint:containedctx // the end of ctx stops the looks, and ends the streams
	stop context.CancelCauseFunc
	// agenda has the times of the looks at the home. authors are the authors whose posts the home shows.
	agenda  *agenda
	authors authors
	// lacks is the time from which the list of authors may lack an author, whose changes were then not told.
	// keep owns lacks.
	lacks time.Time
	// doubted has a value if the user's profile was removed.
	doubted chan struct{}
	// turn holds one value while a caller looks at the home, or joins the streams. turn guards seen and
	// the answers to hints.
	turn chan struct{}
	// reading holds one value while a read of the home runs.
	reading chan struct{}
	// seen has all posts that every joined stream has seen or does not need. seen is nil before the first
	// look.
	seen *home.Streamed
	// unread is the last value that the joined streams received, nil before the first value. The holder of
	// the turn guards unread.
	unread *Unread
	// failures is the number of failed looks after the last successful look. The holder of the turn guards
	// failures.
	failures int
	// lookUnits is the number of units that the last look used. The holder of the turn guards lookUnits.
	lookUnits float64

	mu sync.Mutex
	// streams are the joined streams. Each new post is sent to all joined streams.
	streams map[*Stream]struct{}
}

func newHome(h *Hub, user string) *userHome {
	hm := &userHome{
		hub: h, user: user, open: map[string]int{}, lacks: time.Now(), streams: map[*Stream]struct{}{},
		agenda: newAgenda(h.cfg.SlowLook, h.cfg.LikesEach, h.cfg.Jitter), doubted: make(chan struct{}, 1), turn: make(chan struct{}, 1), reading: make(chan struct{}, 1),
	}
	hm.ctx, hm.stop = context.WithCancelCause(h.ctx)
	return hm
}

// streamsOpen returns the number of open streams. The caller must hold Hub.mu.
func (hm *userHome) streamsOpen() (n int) {
	for _, of := range hm.open {
		n += of
	}
	return n
}

func (hm *userHome) wake() { hm.agenda.hint(aWrite, 0, 0) }

// run looks at the home until its last stream is closed.
func (hm *userHome) run() {
	for {
		timer := time.NewTimer(time.Until(hm.agenda.next()))
		select {
		case <-timer.C:
			if hm.rest(hm.ctx) != nil {
				return
			}
			if err := hm.poll(hm.ctx); err != nil && hm.ctx.Err() == nil {
				hm.hub.cfg.Log.Debug("home not read for its streams", zap.String("user_id", hm.user), zap.Error(err))
			}
		case <-hm.agenda.changed:
			timer.Stop()
		case <-hm.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// locked runs f in the turn of the caller.
func (hm *userHome) locked(ctx context.Context, f func() error) error {
	if err := enter(ctx, hm.turn); err != nil {
		return err
	}
	defer func() { <-hm.turn }()
	return f()
}

// poll makes the due looks, if the home has streams. A hint of a seen post causes no look.
func (hm *userHome) poll(ctx context.Context) error {
	return hm.locked(ctx, func() error {
		if len(hm.joined()) == 0 {
			number, began := hm.agenda.begin()
			hm.agenda.wants()
			hm.agenda.looked(number, began, leastGap)
			return nil
		}
		hm.hub.readers.judge(hm, hm.agenda.answer(hm.seen, 0, time.Time{}))
		w := hm.agenda.wants()
		var errs []error
		if len(w.edited) > 0 {
			errs = append(errs, hm.lookAtEdited(ctx, w.edited))
		}
		if w.home {
			return errors.Join(append(errs, hm.look(ctx, nil, w))...)
		}
		if w.likes {
			errs = append(errs, hm.read(ctx, nil, unitsOfLikes, func(ctx context.Context) error { return hm.lookAtLikes(ctx, hm.seen, hm.joined()...) }))
		}
		if w.unread {
			defer hm.agenda.rest(leastGap)
			errs = append(errs, hm.read(ctx, nil, unitsOfUnread, hm.lookAtUnread))
		}
		return errors.Join(errs...)
	})
}

// joined returns the streams that have joined.
func (hm *userHome) joined() []*Stream {
	hm.mu.Lock()
	defer hm.mu.Unlock()
	return slices.Collect(maps.Keys(hm.streams))
}

// look sends the posts that arrived in the home after the last look, and the parts in w, to the
// streams. After each post, look also reads the number of unread notifications. The look is made for
// st, or for all streams if st is nil. The caller has the turn.
func (hm *userHome) look(ctx context.Context, st *Stream, w wanted) error {
	number, began := hm.agenda.begin()
	err := hm.read(ctx, st, min(max(unitsOfLook, hm.lookUnits), unitsOfOpening), func(ctx context.Context) (err error) {
		hm.lookUnits, err = access.Measure(ctx, func(ctx context.Context) error { return hm.lookAt(ctx, w) })
		return err
	})
	hm.looked(number, began, err)
	hm.checkRecent(began)
	now := hm.hub.cfg.Now()
	for _, st := range hm.joined() {
		st.settle(now)
	}
	hm.hub.cfg.Counters.StreamPoll(err)
	return err
}

// lookAt makes the reads of a look, and sends their results.
func (hm *userHome) lookAt(ctx context.Context, w wanted) error {
	if len(hm.joined()) == 0 { // no stream waits for the posts after the last look
		seen, err := hm.hub.cfg.Homes.HomeStreamed(ctx, hm.user, "")
		hm.seen = seen
		return err
	}
	for items, err := range hm.hub.cfg.Homes.Arrivals(ctx, hm.user, hm.seen) {
		if err != nil {
			return err
		}
		if err := hm.publish(items); err != nil {
			return err
		}
		w.unread = w.unread || len(items) > 0
	}
	streams := hm.joined()
	if w.likes && len(streams) > 0 {
		if err := hm.lookAtLikes(ctx, hm.seen, streams...); err != nil {
			return err
		}
	}
	if w.unread && len(streams) > 0 {
		return hm.lookAtUnread(ctx)
	}
	return nil
}

// looked ends a look. The caller has the turn.
func (hm *userHome) looked(number int, began time.Time, err error) {
	if err != nil {
		hm.failures++
		failed := backoff.Exponential{First: failedLook, Most: mostGap}
		hm.agenda.looked(number, began, failed.Bound(hm.failures))
		return
	}
	hm.failures = 0
	hm.hub.readers.judge(hm, hm.agenda.answer(hm.seen, number, began))
	hm.agenda.looked(number, began, leastGap)
	if hm.seen.Behind() {
		hm.wake()
	}
}

func (hm *userHome) publish(items []feed.HomeItem) error {
	for _, item := range items {
		frame, err := hm.hub.cfg.Frames.Entry(item)
		if err != nil {
			return err
		}
		hm.hub.readers.shown(hm, item.Post.AuthorID) // before the event, so that a later deletion finds the home
		hm.tellOf(item.Post, func(st *Stream) { st.entry(item.Post.ID, frame) })
		hm.hub.saw(access.TimeOf(item.Post.ID))
	}
	return nil
}

// lookAtLikes sends the like counts that seen does not contain to streams.
func (hm *userHome) lookAtLikes(ctx context.Context, seen *home.Streamed, streams ...*Stream) error {
	changes, err := hm.hub.cfg.Homes.LikeChanges(ctx, hm.user, seen)
	if err != nil {
		return err
	}
	for _, change := range changes {
		frame, err := hm.hub.cfg.Frames.Likes(change)
		if err != nil {
			return err
		}
		for _, st := range streams {
			st.push("likes", frame, nil)
		}
	}
	return nil
}

// lookAtUnread sends the number of unread notifications to the joined streams if the number or the
// mark has changed. The caller has the turn.
func (hm *userHome) lookAtUnread(ctx context.Context) error {
	if hm.hub.cfg.Unread == nil {
		return nil
	}
	n, err := hm.hub.cfg.Unread(ctx, hm.user)
	if err != nil || hm.unread != nil && n == *hm.unread {
		return err
	}
	return hm.sendUnread(n, hm.joined()...)
}

func (hm *userHome) sendUnread(n Unread, streams ...*Stream) error {
	frame, err := hm.hub.cfg.Frames.Unread(n.Number)
	if err != nil {
		return err
	}
	hm.unread = &n
	for _, st := range streams {
		st.push("notifications", frame, nil)
	}
	return nil
}

// join adds a stream that has seen all visible posts. join sends the number of unread notifications to
// the stream, and the like counts that the stream does not know. The caller has the turn. The posts of
// the next moments, for example after a return of the reader, get a separate look.
func (hm *userHome) join(ctx context.Context, st *Stream) error {
	others := hm.joined()
	if len(others) == 0 { // no stream needs earlier values
		hm.seen = st.seen.Clone()
	}
	var unread *Unread
	err := hm.read(ctx, st, unitsOfLikes, func(ctx context.Context) error {
		// The joined streams come first, so that the next look finds no new counts.
		var err error
		if len(others) > 0 {
			err = hm.lookAtLikes(ctx, hm.seen, others...)
		}
		if err = errors.Join(err, hm.lookAtLikes(ctx, st.seen, st)); err == nil && hm.hub.cfg.Unread != nil {
			var n Unread
			n, err = hm.hub.cfg.Unread(ctx, hm.user)
			unread = &n
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(others) == 0 {
		hm.seen.KnowLikes(st.seen)
	}
	hm.mu.Lock()
	hm.streams[st] = struct{}{}
	hm.mu.Unlock()
	hm.retell(st.opened, st)
	st.joined, st.moved = true, true
	st.settle(hm.hub.cfg.Now())
	switch {
	case unread == nil:
	case hm.unread == nil || *unread != *hm.unread:
		err = hm.sendUnread(*unread, hm.joined()...)
	default:
		err = hm.sendUnread(*unread, st)
	}
	if err != nil {
		return err
	}
	hm.agenda.hint(somePost, 0, hintTry)
	return nil
}

func (hm *userHome) remove(st *Stream) {
	hm.mu.Lock()
	defer hm.mu.Unlock()
	delete(hm.streams, st)
}
