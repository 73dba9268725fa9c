package pair

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/stream"
)

// following is a session of the standby with its primary.
type following struct {
	standby *Standby
	*link
	peer     Hello
	received chan message
	beat     uint64 // the number of the newest heartbeat
	seeding  *seeding
	told     bool // the primary is paired with this standby
	outcome  Outcome
	leaving  atomic.Bool
	silent   chan struct{}   // closed when the connection has ended
	stopped  <-chan struct{} // closed when the standby stops

	applying  chan struct{} // closed at the end of the goroutine that applies; nil before its start
	endApply  context.CancelFunc
	applyFail error
}

// run runs the session until its first error. run ends when the standby stops.
func (f *following) run(ctx, run context.Context) (Outcome, error) {
	stop := context.AfterFunc(ctx, func() { f.leave(run) }) //nolint:errcheck // reads and writes fail then
	defer stop()
	if err := f.greet(); err != nil {
		return Stopped, err
	}
	f.received, f.silent, f.stopped = make(chan message, 64), make(chan struct{}), run.Done()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		return errors.Join(context.Cause(ctx), f.leave(run))
	})
	group.Go(func() error { return f.read(ctx) })
	group.Go(func() error { return f.handle(ctx) })
	err := errors.Join(group.Wait(), f.stopApply())
	if f.seeding != nil {
		err = errors.Join(err, f.seeding.close())
	}
	if f.standby.tail != nil {
		f.standby.tail.drop()
	}
	if f.outcome != Stopped {
		return f.outcome, nil
	}
	return Stopped, err
}

// greet exchanges hellos, and refuses a machine that must not be the primary.
func (f *following) greet() error {
	s := f.standby
	s.mu.Lock()
	own := s.hello()
	s.mu.Unlock()
	peer, err := greet(f.conn, own)
	if err != nil {
		return err
	}
	f.peer = peer
	s.mu.Lock()
	if peer.Role == RolePrimary { // a primary that refuses this standby is not away
		s.heard = s.cfg.Timing.Now()
	}
	s.mu.Unlock()
	if err := checkPeer(own, peer); err != nil {
		return err
	}
	switch {
	case peer.Role != RolePrimary || peer.Term < own.Term: // P9
		return ErrNotPrimary
	case own.DataFormat < peer.DataFormat:
		return fmt.Errorf("%w: the standby is older than the data of the primary", ErrVersion)
	case peer.Mode == ModePaired && peer.Peer != own.Disk: // P6
		return ErrOtherStandby
	}
	if err := rewound(peer, own); err != nil { // P9
		return err
	}
	if s.role.Lease == peer.Lease {
		return nil
	}
	return s.save(func(r *Role) { r.Lease = peer.Lease }) // before the first promise of this session; a primary with another lease has ended
}

// read receives messages until the connection ends. After a message that was left out no other one may follow: the tail would have a hole.
func (f *following) read(ctx context.Context) error {
	defer close(f.silent)
	for over := false; ; {
		m, err := f.receive()
		if err != nil {
			return err
		}
		switch {
		case over:
			continue
		case m.kind == msgRefused: // handle could see the end of the connection first, and the reason would be lost
			return refusal(string(m.data))
		}
		select {
		case f.received <- m:
		case <-ctx.Done(): // leave closes the connection
			over = true
		}
	}
}

// handle handles the messages: all that are there, then one sync, then one ack.
func (f *following) handle(ctx context.Context) error {
	if err := f.first(ctx); err != nil {
		return err
	}
	f.standby.connect(f.peer)
	f.standby.cfg.Log.Info("the standby has a session with its primary", zap.Uint64("term", f.peer.Term), zap.Bool("seed", f.seeding != nil))
	for {
		if f.seeding == nil && f.applying == nil {
			f.beginApply(ctx)
		}
		select {
		case m := <-f.received:
			if ctx.Err() != nil { // select takes any of the channels that are ready
				return context.Cause(ctx)
			}
			if err := f.some(ctx, m); err != nil {
				return err
			}
		case <-f.applying:
			return f.applyFail
		case <-ctx.Done():
			return nil
		}
	}
}

// beginApply starts the goroutine that applies the tail. stopApply ends the goroutine.
func (f *following) beginApply(ctx context.Context) {
	ctx, f.endApply = context.WithCancel(ctx)
	a, done := f.standby.apply, make(chan struct{})
	f.applying = done
	go func() {
		defer close(done)
		if err := a.run(ctx); err != nil {
			f.applyFail = applyError{err}
		}
	}()
}

// stopApply waits for the end of the goroutine that applies the tail. A store in trouble may hold the goroutine: then stopApply
// returns the trouble if the trouble cannot pass, or if the standby stops.
func (f *following) stopApply() error {
	if f.applying == nil {
		return nil
	}
	f.endApply()
	a := f.standby.apply
	for {
		select {
		case <-f.applying:
			return f.applyFail
		case <-time.After(f.standby.cfg.Timing.Heartbeat / 10):
		}
		err := a.lost()
		select {
		case <-f.stopped:
			err = errors.Join(err, a.trouble())
		default:
		}
		if err != nil {
			a.held = err
			return applyError{err}
		}
	}
}

// first handles the first message. Without an error, the standby has a tail, and outside of a seed it has stores.
func (f *following) first(ctx context.Context) error {
	var m message
	select {
	case m = <-f.received:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch m.kind {
	case msgResume:
		if f.standby.apply == nil { // a seed that was cut leaves a tail without stores
			return unexpected(m.kind)
		}
		return f.follows()
	case msgSeed:
		return f.beginSeed()
	case msgBeat: // the heartbeats begin with the session
		if err := f.beats(m.data); err != nil {
			return err
		}
		return f.first(ctx)
	default:
		return unexpected(m.kind)
	}
}

// some handles a message and all messages that have arrived, and confirms them.
func (f *following) some(ctx context.Context, m message) error {
	for more := len(f.received); ; more-- {
		if err := f.one(ctx, m); err != nil {
			return err
		}
		if more == 0 {
			return f.confirm()
		}
		m = <-f.received
	}
}

// confirm syncs the tail and sends an ack, which is a promise, too (P2).
func (f *following) confirm() error {
	s := f.standby
	at, err := s.tail.sync()
	if err != nil {
		return err
	}
	if s.apply != nil {
		if err := s.apply.lost(); err != nil {
			return applyError{err}
		}
	}
	s.mu.Lock()
	s.granted = s.cfg.Timing.Now() // before the promise is on its way
	s.mu.Unlock()
	beat := f.beat
	if !s.grants() {
		beat |= noPromise
	}
	return f.send(msgAck, appendAck(nil, at, beat))
}

// beats handles a heartbeat.
func (f *following) beats(data []byte) error {
	if len(data) != 8 {
		return unexpected(msgBeat)
	}
	f.beat = binary.LittleEndian.Uint64(data)
	s := f.standby
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = s.cfg.Timing.Now()
	return nil
}

// follows stores the term of a primary that has started again.
func (f *following) follows() error {
	if f.standby.role.Term == f.peer.Term {
		return nil
	}
	return f.standby.save(func(r *Role) { r.Term = f.peer.Term })
}

// one handles a message.
func (f *following) one(ctx context.Context, m message) error {
	switch m.kind {
	case msgFrames:
		return f.frames(m.data)
	case msgBeat:
		return f.beats(m.data)
	case msgPaired:
		return f.pair()
	case msgFile, msgContent, msgListed, msgWhole:
		return f.seeded(m)
	case msgTakeOver:
		return f.takeOver(ctx, m.data)
	case msgMove:
		return f.move(string(m.data))
	default:
		return unexpected(m.kind)
	}
}

// frames appends frames to the tail.
func (f *following) frames(data []byte) error {
	if f.seeding != nil {
		if err := f.seeding.end(); err != nil {
			return err
		}
		f.seeding.frames.add(data)
	}
	for r := stream.NewReader(bytes.NewReader(data)); ; {
		frame, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.standby.tail.append(frame)
		}
		if err != nil {
			return err
		}
	}
}

// pair notes that the two are paired: the tail has all that the primary has answered, and the register has just changed.
func (f *following) pair() error {
	s := f.standby
	if f.seeding != nil {
		return unexpected(msgPaired)
	}
	if _, err := s.tail.sync(); err != nil {
		return err
	}
	f.told = true
	s.mu.Lock()
	s.told = s.cfg.Timing.Now()
	s.mu.Unlock()
	select {
	case s.nudge <- struct{}{}:
	default:
	}
	return nil
}
