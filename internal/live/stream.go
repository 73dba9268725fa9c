package live

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"fanfare/internal/feed/home"
	"fanfare/internal/panics"
)

// Stream is an open stream of a home.
type Stream struct {
	home *userHome
	// service is the service that has opened the stream, "" if the user has opened the stream.
	service string
	// opening is set until the stream has begun. Until then, Hub.Open has taken the units of the stream.
	opening bool
	// opened is the time from which the stream owes its client the changes of posts (C3).
	opened time.Time
	// The holder of the home's turn guards joined, seen and moved. Before the stream has joined, catchUp
	// guards these fields.
	joined bool
	seen   *home.Streamed
	// moved means that the client's position is older than seen.
	moved bool

	// ended ends with the stream. The cause of its end is err.
	ended context.Context //nolint:containedctx // the end of ended ends the stream
	end   context.CancelCauseFunc
	// filled has a value if the buffer has frames.
	filled chan struct{}

	mu       sync.Mutex
	frames   [][]byte
	pending  int
	releases []func()
}

func newStream(hm *userHome, service string) *Stream {
	st := &Stream{home: hm, service: service, filled: make(chan struct{}, 1), opening: true, opened: time.Now()}
	st.ended, st.end = context.WithCancelCause(hm.ctx)
	return st
}

// begin finds the position at which the stream begins. begin fails if the table does not answer or the
// user has no profile.
func (st *Stream) begin(ctx context.Context, last string) error {
	hm := st.home
	err := hm.read(ctx, st, unitsOfLook, func(ctx context.Context) (err error) {
		if last != "" {
			if st.seen, err = hm.hub.cfg.Homes.HomeStreamed(ctx, hm.user, last); err != nil {
				return err
			}
		}
		return hm.requireProfile(ctx, true)
	})
	if err != nil {
		return err
	}
	return hm.locked(ctx, func() error {
		if err := hm.look(ctx, st, wanted{}); err != nil || last != "" {
			return err
		}
		if st.seen = hm.seen.Clone(); !st.seen.Behind() {
			return hm.join(ctx, st)
		}
		// The joined streams may still lack some posts that existed before this stream.
		err := hm.read(ctx, st, unitsOfLook, func(ctx context.Context) (err error) {
			st.seen, err = hm.hub.cfg.Homes.HomeStreamed(ctx, hm.user, "")
			return err
		})
		if err != nil {
			return err
		}
		return hm.join(ctx, st)
	})
}

// Close ends the stream. The caller must not call Close while Serve runs.
func (st *Stream) Close() {
	st.end(nil)
	st.home.remove(st)
	_, release := st.take()
	release()
	st.home.hub.leave(st.home, st.service)
}

// Ended returns a context that ends when nothing more may be written to the stream.
func (st *Stream) Ended() context.Context { return st.ended }

// Serve writes the stream until ctx ends, a write fails, or the stream ends. Serve returns nil if the
// process stops.
func (st *Stream) Serve(ctx context.Context, write func([]byte) error) error {
	var catching sync.WaitGroup
	defer catching.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(st.ended, func() { cancel(context.Cause(st.ended)) })()
	if st.ended.Err() != nil { // AfterFunc ends ctx a moment later
		cancel(context.Cause(st.ended))
	}
	catching.Go(func() {
		if err := panics.Catch(func() error { return st.catchUp(ctx) }); err != nil {
			cancel(err)
		}
	})
	err := st.serve(ctx, write)
	switch {
	case st.home.hub.Stopping():
		st.home.hub.cfg.Counters.StreamEnded("stop")
		return nil
	case errors.Is(err, ErrSlow), errors.Is(context.Cause(st.ended), ErrSlow):
		st.home.hub.cfg.Counters.StreamEnded("slow")
		return ErrSlow
	case errors.Is(context.Cause(st.ended), ErrNoProfile):
		st.home.hub.cfg.Counters.StreamEnded("removed")
		return ErrNoProfile
	}
	return err
}

// serve writes the frames of the buffer, and heartbeats while the buffer is empty.
func (st *Stream) serve(ctx context.Context, write func([]byte) error) error {
	beat := time.NewTicker(Heartbeat)
	defer beat.Stop()
	for {
		frame := st.home.hub.cfg.Frames.Heartbeat
		select {
		case <-st.filled:
			if ctx.Err() != nil { // the end arrived at the same moment
				return context.Cause(ctx)
			}
			frames, release := st.take()
			err := write(bytes.Join(frames, nil))
			release()
			if err != nil {
				return err
			}
			continue
		case <-beat.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := write(frame); err != nil {
			return err
		}
	}
}

// catchUp sends the posts that arrived in the home after the client's position, as fast as the client
// reads the posts. After a look that reached the end of the home, the stream takes the home's turn, so
// that no other look runs. The stream then joins the other streams if hardly any new post has arrived.
func (st *Stream) catchUp(ctx context.Context) error {
	for !st.joined {
		frames, err := st.replay(ctx)
		if len(frames) > 0 { // also the frames of a failed look, so that the client makes progress
			err = errors.Join(st.written(ctx, frames), err)
		}
		if err == nil && !st.seen.Behind() {
			err = st.home.rest(ctx)
		}
		if err == nil && !st.seen.Behind() {
			err = st.home.locked(ctx, func() error { return st.tryToJoin(ctx) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tryToJoin makes one more look. If this look reaches the end of the home, the stream joins the other
// streams. The caller has the turn.
func (st *Stream) tryToJoin(ctx context.Context) error {
	frames, err := st.replay(ctx)
	if len(frames) > 0 {
		st.push("", frames, nil)
	}
	if err != nil || st.seen.Behind() {
		return err
	}
	return st.home.join(ctx, st)
}

// replay returns the frames of posts that the stream has not seen, and then a frame with the stream's
// new position. While frames are written to a client, the client's look holds no slot.
func (st *Stream) replay(ctx context.Context) ([]byte, error) {
	hm := st.home
	var frames []byte
	err := hm.read(ctx, st, unitsOfLook, func(ctx context.Context) error {
		for items, err := range hm.hub.cfg.Homes.Arrivals(ctx, hm.user, st.seen) {
			if err != nil {
				return err
			}
			for _, item := range items {
				frame, err := hm.hub.cfg.Frames.Entry(item)
				if err != nil {
					return err
				}
				frames = append(frames, frame...)
				hm.hub.readers.shown(hm, item.Post.AuthorID) // after it joins, the stream gets the changes since its opening
			}
			hm.hub.cfg.Counters.StreamEvents("entry", len(items))
			if len(frames) >= replayBytes {
				break
			}
		}
		return nil
	})
	if len(frames) > 0 || err == nil && st.seen.Behind() { // the look may have skipped hidden posts
		frames = append(frames, hm.hub.cfg.Frames.Position(st.seen.Position(hm.user))...)
	}
	return frames, err
}

// written puts frames into the buffer, and waits until the frames are written.
func (st *Stream) written(ctx context.Context, frames []byte) error {
	done := make(chan struct{})
	st.push("", frames, func() { close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// entry sends a post, unless the stream has seen it. The caller has the home's turn.
func (st *Stream) entry(post string, frame []byte) {
	if st.seen.Add(post) {
		st.moved = true
		st.push("entry", frame, nil)
	}
}

// settle ends a look at the home: the client gets its new position. The caller has the turn.
func (st *Stream) settle(now time.Time) {
	if !st.moved {
		return
	}
	st.moved = false
	st.seen.Settle(now)
	st.push("", st.home.hub.cfg.Frames.Position(st.seen.Position(st.home.user)), nil)
}

// push puts a frame into the buffer. If the buffer is full, push ends the stream. written, if not nil,
// is called after the frame was written, or once the frame cannot be written any more.
func (st *Stream) push(kind string, frame []byte, written func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended.Err() != nil {
		return
	}
	if st.pending > 0 && st.pending+len(frame) > mostPending {
		st.tooSlow()
		return
	}
	release := st.home.hub.cfg.Hold(st.home.user, len(frame), st.tooSlow)
	if release == nil {
		st.tooSlow()
		return
	}
	st.frames, st.releases, st.pending = append(st.frames, frame), append(st.releases, release), st.pending+len(frame)
	if written != nil {
		st.releases = append(st.releases, written)
	}
	if kind != "" {
		st.home.hub.cfg.Counters.StreamEvents(kind, 1)
	}
	select {
	case st.filled <- struct{}{}:
	default:
	}
}

func (st *Stream) tooSlow() { st.end(ErrSlow) }

// take takes the frames out of the buffer. The frames count as held memory until release is called.
func (st *Stream) take() (frames [][]byte, release func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	frames, releases := st.frames, st.releases
	st.frames, st.releases, st.pending = nil, nil, 0
	return frames, func() {
		for _, release := range releases {
			release()
		}
	}
}
