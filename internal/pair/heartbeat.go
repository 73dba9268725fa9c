package pair

import (
	"context"
	"encoding/binary"
	"time"

	"fanfare/internal/stream"
)

// asked is a heartbeat: its number, its time, and the end of the stream at this time.
type asked struct {
	number uint64
	at     time.Duration
	end    stream.Position
}

// beat sends heartbeats.
func (s *session) beat(ctx context.Context) error {
	ticker := time.NewTicker(s.primary.cfg.Timing.Heartbeat)
	defer ticker.Stop()
	for {
		if err := s.ask(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ask sends a heartbeat.
func (s *session) ask() error {
	return s.send(msgBeat, binary.LittleEndian.AppendUint64(nil, s.asks()))
}

// asks notes a heartbeat that will be sent. It returns its number.
func (s *session) asks() uint64 {
	p := s.primary
	p.mu.Lock()
	defer p.mu.Unlock()
	s.number++
	now := asked{s.number, p.cfg.Timing.Now(), p.stream.End()}
	s.beats = append(s.beats, now)
	if s.probe.number == 0 {
		s.probe = now
	}
	return s.number
}

// near reports whether the standby, which has answered a heartbeat, is less than two heartbeats behind. The caller holds the primary's mu.
func (s *session) near(number uint64) bool {
	p := s.primary
	if s.probe.number == 0 || number < s.probe.number || !p.acked.Covers(s.probe.end) {
		return false
	}
	took := p.cfg.Timing.Now() - s.probe.at
	s.probe = asked{}
	return took < 2*p.cfg.Timing.Heartbeat
}
