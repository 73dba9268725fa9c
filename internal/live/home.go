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
	"fanfare/internal/feed/home"
)

// userHome is a home with open streams.
type userHome struct {
	hub  *Hub
	user string
	// open counts the open streams of each service, and the user's own streams under "". Hub.mu
	// guards it.
	open map[string]int
	ctx  context.Context //nolint:containedctx // its end stops the looks, and ends the streams
	stop context.CancelCauseFunc
	// woken has a value if this process wrote into the home since the last look, or if that
	// look did not reach the end of the home.
	woken chan struct{}
	// turn holds one value while somebody looks at the home, or joins. It guards seen and looks.
	turn chan struct{}
	// reading holds one value while a read of the home runs.
	reading chan struct{}
	// seen is what every joined stream has seen or does not want; nil before the first look.
	seen *home.Streamed
	// looks counts the looks since the one that read like counts.
	looks int

	mu sync.Mutex
	// streams have joined: each new post is sent to them.
	streams map[*Stream]struct{}
}

func newHome(h *Hub, user string) *userHome {
	hm := &userHome{
		hub: h, user: user, open: map[string]int{}, streams: map[*Stream]struct{}{},
		woken: make(chan struct{}, 1), turn: make(chan struct{}, 1), reading: make(chan struct{}, 1),
	}
	hm.ctx, hm.stop = context.WithCancelCause(h.ctx)
	return hm
}

// streamsOpen returns the number of open streams. The caller holds Hub.mu.
func (hm *userHome) streamsOpen() (n int) {
	for _, of := range hm.open {
		n += of
	}
	return n
}

func (hm *userHome) wake() {
	select {
	case hm.woken <- struct{}{}:
	default:
	}
}

// run looks at the home until its last stream is closed.
func (hm *userHome) run() {
	failed := backoff.Exponential{First: hm.hub.cfg.Poll, Most: mostGap}
	failures, gap := 0, time.Duration(0)
	for began := time.Now(); ; {
		timer := time.NewTimer(time.Until(began.Add(max(hm.hub.cfg.Poll, gap))))
		select {
		case <-timer.C:
		case <-hm.woken:
			timer.Stop()
		case <-hm.ctx.Done():
			timer.Stop()
			return
		}
		if backoff.Wait(hm.ctx, time.Until(began.Add(gap))) != nil || hm.rest(hm.ctx) != nil {
			return
		}
		began = time.Now()
		err := hm.poll(hm.ctx)
		gap = leastGap
		if failures++; err == nil {
			failures = 0
			continue
		}
		gap = max(gap, failed.Bound(failures))
		if hm.ctx.Err() == nil {
			hm.hub.cfg.Log.Debug("home not read for its streams", zap.String("user_id", hm.user), zap.Error(err))
		}
	}
}

// watchProfile looks at the profile of the home's user, once for all streams, and ends them if there
// is none: a removed user reads nothing.
func (hm *userHome) watchProfile() {
	failed := backoff.Exponential{First: DefaultPoll, Most: profileLook}
	failures, wait := 0, profileLook
	for backoff.Wait(hm.ctx, wait) == nil {
		err := hm.charged(hm.ctx, nil, func(ctx context.Context) error { return hm.requireProfile(ctx, false) })
		switch {
		case errors.Is(err, ErrNoProfile):
			hm.stop(ErrNoProfile)
		case err != nil:
			failures++
			wait = failed.Bound(failures)
		default:
			failures, wait = 0, profileLook
		}
	}
}

// requireProfile returns ErrNoProfile if the home's user has no profile.
func (hm *userHome) requireProfile(ctx context.Context, consistent bool) error {
	has, err := hm.hub.cfg.Homes.HasProfile(ctx, hm.user, consistent)
	if err == nil && !has {
		return ErrNoProfile
	}
	return err
}

// locked runs f in the turn of this caller.
func (hm *userHome) locked(ctx context.Context, f func() error) error {
	select {
	case hm.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-hm.turn }()
	return f()
}

// poll looks at the home once, if it has streams.
func (hm *userHome) poll(ctx context.Context) error {
	return hm.locked(ctx, func() error {
		if len(hm.joined()) == 0 {
			return nil
		}
		return hm.look(ctx, nil)
	})
}

// joined returns the streams that have joined.
func (hm *userHome) joined() []*Stream {
	hm.mu.Lock()
	defer hm.mu.Unlock()
	return slices.Collect(maps.Keys(hm.streams))
}

// look sends to the streams the posts that have come into the home since the last look. It is made
// for st, or for all streams if st is nil. The caller has the turn.
func (hm *userHome) look(ctx context.Context, st *Stream) error {
	err := hm.read(ctx, st, func(ctx context.Context) error {
		if len(hm.joined()) == 0 { // nobody waits for the posts since the last look
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
		}
		if hm.seen.Behind() {
			hm.wake()
		}
		streams := hm.joined()
		if hm.looks++; hm.looks < pollsOfLikes || len(streams) == 0 {
			return nil
		}
		hm.looks = 0
		return hm.lookAtLikes(ctx, hm.seen, streams...)
	})
	now := hm.hub.cfg.Now()
	for _, st := range hm.joined() {
		st.settle(now)
	}
	hm.hub.cfg.Counters.StreamPoll(err)
	return err
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
	}
	return nil
}

// lookAtLikes sends to streams the like counts that seen does not know.
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

// join adds a stream that has seen everything that is visible now, and sends it the like
// counts that it does not know. The caller has the turn.
func (hm *userHome) join(ctx context.Context, st *Stream) error {
	if len(hm.joined()) == 0 { // what came before is of no use to anybody
		hm.seen = st.seen.Clone()
	}
	err := hm.read(ctx, st, func(ctx context.Context) error {
		// First the others', so that the next look finds nothing new.
		return errors.Join(hm.lookAtLikes(ctx, hm.seen, hm.joined()...), hm.lookAtLikes(ctx, st.seen, st))
	})
	if err != nil {
		return err
	}
	hm.mu.Lock()
	hm.streams[st] = struct{}{}
	hm.mu.Unlock()
	st.joined, st.moved = true, true
	st.settle(hm.hub.cfg.Now())
	return nil
}

func (hm *userHome) remove(st *Stream) {
	hm.mu.Lock()
	defer hm.mu.Unlock()
	delete(hm.streams, st)
}
