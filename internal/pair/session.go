package pair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/stream"
)

// session is a session of the primary with a standby.
type session struct {
	primary *Primary
	*link
	peer     Hello
	receiver *stream.Receiver
	done     chan struct{}   // closed at the end
	at       stream.Position // behind the last frame that was sent
	time     int64           // of the last frame that was sent
	before   stream.Position // before the sent frames of this time; the zero Position if there may be others
	upto     stream.Position // a seed is whole behind it
	// announced is the last safe point that the standby was told.
	announced stream.Position

	joins chan struct{} // wakes join
	taken chan taken    // has the message of a standby that has become the primary
	moved chan struct{} // closed when the standby has stored the register to which the pair moves

	files            []seedFile // of a seed, as they were sent
	frames           seedFile   // of a seed
	seeded, seedSize atomic.Int64

	// The primary's mu guards the fields below.
	sent     []sent
	number   uint64 // of the newest heartbeat
	beats    []asked
	probe    asked           // shows how far the standby is behind; its number is 0 if the standby has confirmed its end
	whole    bool            // the standby has a whole copy
	answered bool            // the standby has answered a heartbeat
	moment   stream.Position // the standby has to confirm everything before it, before the two are paired (P8)
	told     bool
}

// sent is a place up to which frames were sent, and the mark of its last frame.
type sent struct {
	at   stream.Position
	mark stream.Mark
}

// Serve runs one session with a machine that has connected, until the connection or ctx ends. A newer session with the
// same standby ends an older one.
func (p *Primary) Serve(ctx context.Context, conn net.Conn) (err error) {
	defer func() { err = errors.Join(err, ignoreClosed(conn.Close())) }()
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // reads and writes fail then
	defer stop()
	p.mu.Lock()
	own := p.hello(p.end())
	p.mu.Unlock()
	peer, err := greet(conn, own)
	if err != nil {
		return err
	}
	if err := p.meets(peer); err != nil {
		return err
	}
	if peer.Ask {
		p.askedToHandOver(own, peer)
		return nil
	}
	s, err := p.begin(ctx, conn, peer)
	if err != nil {
		p.refused(peer, err)
		return errors.Join(err, newLink(conn, p.cfg.Timing.Lease).send(msgRefused, []byte(err.Error())))
	}
	defer p.finish(s)
	err = s.run(ctx)
	p.ended(err)
	return err
}

// ended notes why a session has ended, or was refused.
func (p *Primary) ended(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why != nil {
		p.apart = why.Error()
	}
}

// hello returns the hello of the primary. The caller holds mu.
func (p *Primary) hello(at stream.Position) Hello {
	h := p.role.hello(at, p.cfg.DataFormat, p.cfg.Version).proves(p.cfg.Secret)
	h.Began, h.Lease, h.Register = places(p.ends), p.cfg.Timing.Lease.Milliseconds(), p.cfg.Register.Name()
	return h
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// askedToHandOver notes that the standby asks for a switch.
func (p *Primary) askedToHandOver(own, peer Hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer.HandOver && !p.isAsked && own.Role == RolePrimary && own.Mode == ModePaired && peer.Disk == own.Peer {
		p.isAsked = true
		close(p.asked)
	}
}

// accept returns an error for a peer that cannot be the standby. The caller holds mu.
func (p *Primary) accept(own, peer Hello) error {
	if err := checkPeer(own, peer); err != nil {
		return err
	}
	switch {
	case p.reason != nil:
		return p.reason
	case peer.DataFormat < own.DataFormat:
		return fmt.Errorf("%w: the standby is older than the data", ErrVersion)
	case own.Role != RolePrimary || peer.Role != RoleStandby || peer.Term > own.Term:
		return ErrNotPrimary
	case own.Mode == ModePaired && peer.Disk != own.Peer, p.tenure.other(peer.Disk): // P6
		return ErrOtherStandby
	}
	if ahead := peer.ahead(); ahead.Abs() > clockWarned {
		p.cfg.Log.Warn("the clocks of the two machines differ: set both by NTP", zap.Duration("standby_ahead", ahead))
	}
	return clockFits(own, peer)
}

// resumes reports whether the standby continues from its position. The position of a standby of another primary, or
// of an older term, is no position of this stream.
func (p *Primary) resumes(peer Hello) bool {
	return peer.Mode != ModeSeeding && peer.position() != (stream.Position{}) && peer.Lineage == p.role.Lineage && peer.Peer == p.role.Disk && p.role.hello(stream.Position{}, 0, "").reigned(peer.Term)
}

// begin makes a session, which takes the place of an older session with the same standby. A refused machine ends no session.
func (p *Primary) begin(ctx context.Context, conn net.Conn, peer Hello) (*session, error) {
	select {
	case p.serving <- struct{}{}:
		defer func() { <-p.serving }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	err := p.begins(peer)
	old := p.session
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if old != nil {
		if err := old.conn.Close(); err != nil {
			p.cfg.Log.Debug("the older session was closed already", zap.Error(err))
		}
		<-old.done
	}
	s := &session{primary: p, link: newLink(conn, p.cfg.Timing.Lease), peer: peer, done: make(chan struct{}), joins: make(chan struct{}, 1), taken: make(chan taken, 1), moved: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The older session may have changed the role.
	if err := p.begins(peer); err != nil {
		return nil, err
	}
	err = errNoPosition
	if p.resumes(peer) {
		if s.receiver, err = p.resume(peer.position()); err == nil {
			s.whole, s.at = true, peer.position()
		}
	}
	if err != nil && p.role.Mode == ModePaired {
		return nil, fmt.Errorf("%w (%w)", ErrMustSeed, err)
	}
	if err != nil {
		s.receiver = p.stream.Hold()
		s.at = s.receiver.Restart()
	}
	if p.receiver != nil {
		p.receiver.Close()
	}
	p.receiver, p.session, p.asks = s.receiver, s, "" // the standby follows by this register
	p.keepFrames()
	p.acked = stream.Position{}
	if s.whole {
		p.acked = peer.position()
	}
	p.release()
	p.wake()
	return s, nil
}

// resume returns the receiver of a standby that has the stream up to a position. The stream may keep more for an archive
// than the standby needs. The caller holds mu.
func (p *Primary) resume(at stream.Position) (*stream.Receiver, error) {
	if p.receiver != nil && p.acked != (stream.Position{}) && at.Covers(p.acked) { // an unknown position may be before a seed
		if receiver, err := p.receiver.Again(at); err == nil {
			return receiver, nil
		}
	}
	return p.stream.Resume(at)
}

// finish ends a session. A primary that was joining answers by itself again; a paired primary does not.
func (p *Primary) finish(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(s.done)
	if p.session != s {
		return
	}
	p.session, p.joining, p.former, p.leftAt = nil, false, s.peer.Process, p.cfg.Timing.Now()
	if !s.whole { // the next session begins another seed
		s.receiver.Close()
		p.receiver = nil
	}
	p.release()
	p.wake()
	p.tenure.wake()
}

// run runs the session until its first error.
func (s *session) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		return errors.Join(context.Cause(ctx), ignoreClosed(s.conn.Close()))
	})
	group.Go(func() error { return s.write(ctx) })
	group.Go(func() error { return s.beat(ctx) })
	group.Go(func() error { return s.join(ctx) })
	group.Go(s.read)
	return group.Wait()
}

// write sends the seed, if the standby needs one, and then the frames.
func (s *session) write(ctx context.Context) error {
	if s.whole {
		if err := s.send(msgResume, nil); err != nil {
			return err
		}
	} else if err := s.seed(ctx); err != nil {
		return err
	}
	if err := s.tell(); err != nil {
		return err
	}
	var known stream.Position
	for {
		some, mark, safe, err := s.receiver.Ahead(ctx, pieceSize, known)
		if err != nil {
			return err
		}
		if s.receiver.Torn() {
			s.time = 0 // see announces
		}
		data := s.take(some, mark)
		if known = safe; s.announces(safe) != s.announced {
			s.announced = s.announces(safe)
			data = stream.Append(data, stream.SafeAt(s.announced, time.Now().UnixMilli()))
		}
		if len(data) > 0 {
			if err := s.sendFrames(data); err != nil {
				return err
			}
		}
		if err := s.complete(); err != nil {
			return err
		}
	}
}

// sendFrames sends frames.
func (s *session) sendFrames(data []byte) error {
	if !s.whole {
		s.frames.add(data)
	}
	return s.send(msgFrames, data)
}

// take returns frames as bytes, and keeps their mark until the standby has confirmed them. A frame that ends a log does not move the position, so
// an ack of the frame before it would confirm it, too: the mark of the next frames is also its mark.
func (s *session) take(frames []stream.Frame, mark stream.Mark) (data []byte) {
	moved := false
	for _, f := range frames {
		if s.time != 0 && f.Time != s.time { // the first frame may be inside what a start has read
			s.before = s.at
		}
		s.time = f.Time
		after := s.at.After(f)
		data, s.at, moved = stream.Append(data, f), after, after != s.at
	}
	if moved {
		s.primary.mu.Lock()
		defer s.primary.mu.Unlock()
		s.sent = append(s.sent, sent{s.at, mark})
	}
	return data
}

// complete ends a seed when the standby has a safe point behind the copies: a promotion that gives writes up ends at the safe point, and the
// copies of the two stores alone are of different moments. Only the answer to a heartbeat behind msgWhole shows that the
// standby has opened its copy: a paired primary has no other copy for a standby that ended before.
func (s *session) complete() error {
	if s.whole || !s.announced.Covers(s.upto) {
		return nil
	}
	if err := s.sendList(); err != nil {
		return err
	}
	s.primary.mu.Lock()
	s.whole, s.probe = true, asked{}
	s.primary.mu.Unlock()
	return s.ask()
}

// tell sends a paired standby the message that the two are paired.
func (s *session) tell() error {
	s.primary.mu.Lock()
	now := s.primary.role.Mode == ModePaired && !s.told
	s.told = s.told || now
	s.primary.mu.Unlock()
	if !now {
		return nil
	}
	return s.send(msgPaired, nil)
}

// read handles the messages of the standby.
func (s *session) read() error {
	for {
		m, err := s.receive()
		if err != nil {
			return err
		}
		if m.kind == msgTaken && len(m.data) == takenLen {
			s.taken <- parseTaken(m.data)
			return errTaken
		}
		if m.kind == msgMoved {
			if err := s.hasMoved(); err != nil {
				return err
			}
			continue
		}
		if m.kind == msgBye {
			s.primary.left()
			return errLeft
		}
		if m.kind != msgAck {
			return unexpected(m.kind)
		}
		at, number, err := parseAck(m.data)
		if err != nil {
			return err
		}
		if s.acked(at, number) {
			s.ready()
		}
	}
}

// acked handles an ack. It reports whether the two become paired.
func (s *session) acked(at stream.Position, number uint64) (pairs bool) {
	p := s.primary
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked = most(p.acked, at)
	p.release()
	n := 0
	for ; n < len(s.sent) && p.acked.Covers(s.sent[n].at); n++ {
		s.receiver.Done(s.sent[n].mark)
	}
	s.sent = slices.Delete(s.sent, 0, n)
	i := slices.IndexFunc(s.beats, func(b asked) bool { return b.number == number&^noPromise })
	if i >= 0 {
		asked := s.beats[i].at
		s.beats = slices.Delete(s.beats, 0, i+1)
		p.lastAck = p.cfg.Timing.Now() - asked
		p.granted(asked, number&noPromise == 0)
		if !s.answered {
			s.answered = true
			p.wake()
		}
	}
	if s.near(number&^noPromise) && s.whole && p.role.Mode == ModeAlone && !p.joining {
		p.joining = true          // P7: from now on answers wait, …
		s.moment = p.stream.End() // … and this moment is behind all answers that did not wait (P8)
	}
	return p.joining && p.role.Mode == ModeAlone && p.acked.Covers(s.moment)
}
