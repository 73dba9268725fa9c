package embedded

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"
)

// A message that kills the process would be redelivered after each start. All messages that were in flight
// when the process died are suspects. The more crashes a suspect has, the fewer other suspects are in
// flight with it. In the end it is the only suspect in flight in all topics. So the innocent messages are
// acked, and the deadly message reaches maxCrashes.

const (
	// maxCrashes is the number of crashes at which a suspect becomes a dead letter. At its last
	// four crashes the suspect was in flight alone.
	maxCrashes = 10
	// carefulTime is the time after a crash in which the queue notes a message as in flight
	// before it delivers the message. So a message that kills the process at once is counted,
	// too.
	carefulTime  = time.Minute
	carefulBatch = 64
)

// together returns the maximum number of suspects in flight if one of them has this number of crashes.
func together(crashes int) int64 { return max(1, int64(maxOut)>>(3*crashes)) }

func suspicious(r record) bool { return r.check() == nil && r.crashes() > 0 }

// suspects counts the suspects in flight.
type suspects struct {
	out atomic.Int64
	// until is the end of the careful time, set by Open.
	until time.Time
}

func (s *suspects) careful(now time.Time) bool { return now.Before(s.until) }

// admit reports whether a message may be in flight now. If so, admit counts the message.
func (s *suspects) admit(r record) bool {
	if !suspicious(r) {
		return true
	}
	if s.out.Add(1) <= together(r.crashes()) {
		return true
	}
	s.out.Add(-1)
	return false
}

// acquit frees the room of a suspect once its answer is on the disk. Before that, another
// suspect's crash could cause a redelivery of the answered suspect.
func (b *Broker) acquit(answered <-chan error) {
	if err := b.await(context.Background(), answered); err != nil {
		b.log.Error("answer not written", zap.Error(err))
	}
	b.suspects.out.Add(-1)
	for _, t := range b.allTopics() {
		t.rouse()
	}
}

// noteOut returns when the receives of the messages in flight are on the disk.
func (b *Broker) noteOut(ctx context.Context) {
	done := make(chan error, 1)
	if err := b.submit(request{done: done}, false, true); err != nil {
		return
	}
	if err := b.await(ctx, done); err != nil && ctx.Err() == nil {
		b.log.Warn("receives not written", zap.Error(err))
	}
}

// running returns the key that exists while a process has the directory open.
func running() []byte { return []byte{formatSpace, 'r'} }

// begin notes that a process has the directory open. It also detects that the previous process died.
func (b *Broker) begin() error {
	_, closer, err := b.db.Get(running())
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return b.db.Set(running(), nil, pebble.Sync)
	case err != nil:
		return err
	}
	b.suspects.until = b.now().Add(carefulTime)
	return closer.Close()
}

// end notes that the process stopped without a crash.
func (b *Broker) end() {
	if err := b.db.Delete(running(), pebble.Sync); err != nil {
		b.log.Warn("the next start takes this stop for a crash", zap.Error(err))
	}
}
