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
		hub: h, user: user, open: map[string]int{}, streams: map[*Stream]struct{}{},
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

// keep reads the list of the home's authors, and checks the profile of the home's user, once for all
// streams.
func (hm *userHome) keep() {
	failed := backoff.Exponential{First: failedLook, Most: profileLook}
	profileAt, doubted := time.Now().Add(profileLook), false
	for failures, listAt, next := 0, time.Now(), time.Now(); hm.untilDoubt(next, &doubted); {
		now := time.Now()
		var err error
		if doubted || !now.Before(profileAt) {
			if err = hm.askProfile(doubted); err == nil {
				profileAt, doubted = now.Add(profileLook), false
			}
		}
		if !now.Before(listAt) {
			listErr := hm.list()
			if err = errors.Join(err, listErr); listErr == nil {
				listAt = now.Add(listAge)
			}
		}
		if failures++; err != nil {
			next = now.Add(failed.Bound(failures))
			continue
		}
		failures, next = 0, profileAt
		if listAt.Before(next) {
			next = listAt
		}
	}
}

// untilDoubt waits until next, or until the profile of the user may be gone, and then sets doubted.
// untilDoubt returns false at the end of the home.
func (hm *userHome) untilDoubt(next time.Time, doubted *bool) bool {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-timer.C:
		select {
		case <-hm.doubted: // the doubt arrived at the same moment
			*doubted = true
		default:
		}
	case <-hm.doubted:
		*doubted = true
	case <-hm.ctx.Done():
	}
	return hm.ctx.Err() == nil
}

// askProfile ends the streams if their user has no profile, because a removed user must not read
// posts. For that reason askProfile does not wait for units.
func (hm *userHome) askProfile(consistent bool) error {
	err := hm.charged(hm.ctx, nil, 0, func(ctx context.Context) error { return hm.requireProfile(ctx, consistent) })
	if errors.Is(err, ErrNoProfile) {
		hm.stop(ErrNoProfile)
	}
	return err
}

// list reads the authors whose posts the home shows. If the list does not fit into memory, the home
// gets no hints, so looks at the home are more frequent. A hint without a post replaces the hints that
// arrived during the read.
func (hm *userHome) list() error {
	readers := hm.hub.readers
	readers.begin(hm)
	var users []string
	var whole bool
	err := hm.charged(hm.ctx, nil, unitsOfList, func(ctx context.Context) (err error) {
		users, whole, err = hm.hub.cfg.Homes.Heard(ctx, hm.user, mostAuthors)
		return err
	})
	if err != nil {
		return err
	}
	slow := hm.hub.cfg.SlowLook
	if fits := readers.set(hm, users, whole); !fits {
		slow = min(slow, unlistedLook)
	}
	hm.agenda.setSlow(slow)
	hm.agenda.hint(somePost, 0, hintTry)
	return nil
}

// requireProfile returns ErrNoProfile if the home's user has no profile.
func (hm *userHome) requireProfile(ctx context.Context, consistent bool) error {
	has, err := hm.hub.cfg.Homes.HasProfile(ctx, hm.user, consistent)
	if err == nil && !has {
		return ErrNoProfile
	}
	return err
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
		if w.home {
			return hm.look(ctx, nil, w)
		}
		var errs []error
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
		for _, st := range hm.joined() {
			st.entry(item.Post.ID, frame)
		}
		hm.hub.saw(access.TimeOf(item.Post.ID))
		hm.hub.readers.shown(hm, item.Post.AuthorID)
	}
	return nil
}

// lookAtLikes sends the like counts that seen does not contain to streams.
func (hm *userHome) lookAtLikes(ctx context.Context, seen *home.Streamed, streams ...*Stream) error {
	changes, err := hm.hub.cfg.Homes.LikeChanges(ctx, seen)
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
