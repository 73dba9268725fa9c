package events_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"fanfare/internal/events"
	"fanfare/internal/queue"
	"fanfare/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hole is a queue that hangs, fails or works.
type hole struct {
	mu    sync.Mutex
	err   error
	black bool
	tries int
	sent  []*message.Message
}

func (h *hole) Send(name string, msgs ...*message.Message) error {
	h.mu.Lock()
	h.tries++
	black, err := h.black, h.err
	h.mu.Unlock()
	if black {
		<-msgs[0].Context().Done()
		return msgs[0].Context().Err()
	}
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sent = append(h.sent, msgs...)
	}
	return err
}

func (h *hole) set(black bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.black, h.err = black, err
}

func (h *hole) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries
}

func event() messages.Event {
	const id = "01JD8QJ4WY0000000000000002"
	return &messages.PostDelivered{Header: messages.Header{EventID: id, Time: time.Unix(1, 0)}, PostID: id, AuthorID: "ann"}
}

func TestEventsAreSentWithTheirGroup(t *testing.T) {
	h := &hole{}
	s := events.New(h.Send, "out", messages.GroupOf, zap.NewNop())
	require.NoError(t, s.Send(t.Context()))
	assert.Zero(t, h.count(), "nothing was sent")
	require.NoError(t, s.Send(t.Context(), event(), event()))
	require.Len(t, h.sent, 2)
	assert.Equal(t, "ann", h.sent[0].Metadata.Get(queue.MetaGroup))
	assert.Equal(t, event().Head().EventID, h.sent[0].UUID)
}

func TestAFailingQueueHoldsUpOneSendAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hole{black: true}
		s := events.New(h.Send, "out", messages.GroupOf, zap.NewNop())
		began := time.Now()
		err := s.Send(t.Context(), event())
		require.ErrorAs(t, err, new(*queue.UnsentError))
		assert.Equal(t, events.SendTime, time.Since(began))
		require.Error(t, s.Failing())
		<-time.After(2 * time.Second) // virtual time
		var sends sync.WaitGroup
		began = time.Now()
		var mu sync.Mutex
		atOnce := 0
		for range 100 {
			sends.Go(func() {
				err := s.Send(t.Context(), event())
				mu.Lock()
				defer mu.Unlock()
				assert.ErrorAs(t, err, new(*queue.UnsentError))
				if time.Since(began) == 0 {
					atOnce++
				}
			})
		}
		sends.Wait()
		assert.Equal(t, 99, atOnce, "sends that did not wait")
		assert.Equal(t, 2, h.count(), "tries of the queue")

		h.set(false, errors.New("no such queue"))
		<-time.After(2 * time.Second) // virtual time
		require.Error(t, s.Send(t.Context(), event()))
		require.Error(t, s.Send(t.Context(), event()))
		assert.Equal(t, 3, h.count(), "within a second the queue is not tried again")
		h.set(false, nil)
		<-time.After(2 * time.Second) // virtual time
		require.NoError(t, s.Send(t.Context(), event()))
		require.NoError(t, s.Failing())
		require.NoError(t, s.Send(t.Context(), event()))
	})
}

func TestASendThatItsCallerCutSaysNothingAboutTheQueue(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := events.New((&hole{black: true}).Send, "out", messages.GroupOf, zap.NewNop())
	require.ErrorAs(t, s.Send(ctx, event()), new(*queue.UnsentError))
	assert.NoError(t, s.Failing())
}

// A caller has less time than SendTime. The sender still notices that the queue hangs.
func TestASendThatOutlastsItsCallersTimeHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h := &hole{black: true}
		s := events.New(h.Send, "out", messages.GroupOf, zap.NewNop())
		require.ErrorAs(t, s.Send(ctx, event()), new(*queue.UnsentError))
		require.Error(t, s.Failing())
		require.Error(t, s.Send(t.Context(), event()), "fails at once")
		assert.Equal(t, 1, h.count())
	})
}
