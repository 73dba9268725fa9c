package sqs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"

	"fanfare/internal/queue"
)

const (
	// pollTimeout is what a receive may take beyond its wait.
	pollTimeout = 15 * time.Second
	// After a failed receive the next one waits, doubling between these.
	minPollBackoff, maxPollBackoff = 100 * time.Millisecond, 5 * time.Second
	// maxDelay is the longest visibility timeout of SQS.
	maxDelay = 12 * time.Hour
)

// subscription delivers the messages of one queue to one channel.
//
// It has a goroutine for each poller, for each message that is out, and for the
// heartbeat; run waits for all of them. It ends drainTime after the last poll should
// have, whatever SQS does.
type subscription struct {
	b       *Broker
	topic   string
	lane    *lane
	channel chan *message.Message
	max     int
	// stopped is closed when no more is to be received, abandon when the grace
	// after that is over.
	stopped, abandon chan struct{}
	// life ends when the drain is over: nothing waits for SQS from then on.
	life    context.Context //nolint:containedctx // it is the life of the subscription
	answers sync.WaitGroup

	mu   sync.Mutex
	wake sync.Cond
	// out is what was received and whose answer has not reached SQS.
	out map[*held]struct{}
	// reserved is room that polls under way may fill, polling their number.
	reserved, polling int
	// wanted is how many polls may run: more when they come back full, fewer when
	// they come back empty.
	wanted int
	// extensions are under way.
	extensions int
	ended      bool
}

// held is a message that was received and not answered.
type held struct {
	receipt string
	// until is when it may be seen by others, if it is not extended.
	until time.Time
	// extending says that an extension is under way, answered that there must be
	// no more.
	extending, answered bool
	cancel              context.CancelFunc
}

// Subscribe implements message.Subscriber. Subscriptions of one topic compete for its
// messages. The channel is closed after ctx ends or the Broker is closed.
func (b *Broker) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	end, err := b.begin(&b.subscriptions)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	l, err := b.topicLane(ctx, topic, "")
	if err != nil {
		end()
		return nil, fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	s := &subscription{
		b: b, topic: topic, lane: l, channel: make(chan *message.Message),
		max:     defaultTo(b.maxInFlight[topic], DefaultMaxInFlight),
		stopped: make(chan struct{}), abandon: make(chan struct{}),
		out: map[*held]struct{}{}, wanted: 1,
	}
	s.wake.L = &s.mu
	go func() { // Close waits for it, by end
		defer end()
		s.run(ctx)
	}()
	return s.channel, nil
}

func (s *subscription) run(ctx context.Context) {
	defer close(s.channel)
	life, cut := context.WithCancel(s.b.life)
	defer cut()
	s.life = life
	defer context.AfterFunc(life, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wake.Broadcast()
	})()
	var pollers, heart sync.WaitGroup
	beating, stopHeart := context.WithCancel(context.WithoutCancel(ctx))
	heart.Go(func() { s.heartbeat(beating) })
	for range s.b.pollers {
		pollers.Go(func() { s.poll(ctx) })
	}
	select {
	case <-ctx.Done():
	case <-s.b.stopping:
	}
	close(s.stopped)
	s.mu.Lock()
	s.ended = true
	s.wake.Broadcast()
	s.mu.Unlock()
	grace := time.AfterFunc(s.b.grace, func() { close(s.abandon) })
	drained := time.AfterFunc(s.b.grace+s.b.pollWait+drainTime, cut)
	pollers.Wait()
	s.answers.Wait()
	grace.Stop()
	drained.Stop()
	stopHeart()
	heart.Wait()
	if left := len(s.out); left > 0 {
		s.b.log.Warn("SQS took no answer before the stop, the messages come again after their visibility timeout",
			zap.String("topic", s.topic), zap.Int("messages", left))
	}
}

// reserve waits for room and a turn to poll, and returns how many messages may be
// asked for; 0 at the end. One poll always runs if there is any room; others wait
// until there is room for ten.
func (s *subscription) reserve() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.ended {
			return 0
		}
		room := s.max - len(s.out) - s.reserved
		if s.polling == 0 && room > 0 || s.polling < s.wanted && room >= maxEntries {
			n := min(room, maxEntries)
			s.reserved += n
			s.polling++
			return n
		}
		s.wake.Wait()
	}
}

// release ends a poll that had reserved room for n and puts what came into out.
func (s *subscription) release(n int, came []*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= n
	s.polling--
	switch len(came) {
	case n:
		s.wanted = min(s.wanted+1, s.b.pollers)
	case 0:
		s.wanted = max(s.wanted-1, 1)
	}
	for _, h := range came {
		s.out[h] = struct{}{}
	}
	s.wake.Broadcast()
}

// poll receives and delivers until the end.
func (s *subscription) poll(ctx context.Context) {
	backoff := minPollBackoff
	for {
		n := s.reserve()
		if n == 0 {
			return
		}
		received, err := s.receive(n)
		holds := make([]*held, len(received))
		msgs := make([]*message.Message, len(received))
		for i := range received {
			msgs[i], holds[i] = s.open(ctx, &received[i])
		}
		s.release(n, holds)
		if err != nil {
			s.b.log.Warn("receive failed", zap.String("topic", s.topic), zap.Duration("next_in", backoff), zap.Error(err))
			select {
			case <-time.After(backoff):
			case <-s.stopped:
			}
			backoff = min(2*backoff, maxPollBackoff)
			continue
		}
		backoff = minPollBackoff
		for i := range msgs {
			s.deliver(msgs[i], holds[i])
		}
	}
}

// receive makes one request. It is not cancelled at the stop but after the drain: a
// reply that nobody reads strands its messages for their visibility timeout.
func (s *subscription) receive(n int) ([]types.Message, error) {
	ctx, cancel := context.WithTimeout(s.life, s.b.pollWait+pollTimeout)
	defer cancel()
	out, err := s.b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &s.lane.url, MaxNumberOfMessages: int32(n),
		VisibilityTimeout: seconds(s.b.visibility), WaitTimeSeconds: seconds(s.b.pollWait),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	})
	if err != nil {
		return nil, classify("receive messages", err)
	}
	return out.Messages, nil
}

// open makes a Watermill message of what came, nil if it cannot.
func (s *subscription) open(ctx context.Context, m *types.Message) (*message.Message, *held) {
	h := &held{receipt: aws.ToString(m.ReceiptHandle), until: time.Now().Add(s.b.visibility), cancel: func() {}}
	msg, err := unmarshal(m)
	if err != nil {
		// It comes again and ends by the native redrive policy.
		s.b.log.Error("message cannot be read", zap.String("topic", s.topic), zap.String("sqs_message_id", aws.ToString(m.MessageId)), zap.Error(err))
		return nil, h
	}
	receives, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil || receives < 1 {
		receives = 1
	}
	// The context outlives the subscription's by the grace.
	msgCtx, cancel := context.WithCancel(queue.WithReceive(context.WithoutCancel(ctx), queue.NewReceive(receives)))
	h.cancel = cancel
	msg.SetContext(msgCtx)
	return msg, h
}

// deliver sends a message to the channel and leaves a goroutine behind that waits
// for its answer. After the stop it hands the message back.
func (s *subscription) deliver(msg *message.Message, h *held) {
	if msg == nil {
		s.answers.Go(func() { s.handBack(h, queue.Backoff(1)) })
		return
	}
	select {
	case <-s.stopped:
		s.answers.Go(func() { s.handBack(h, 0) })
		return
	default:
	}
	select {
	case s.channel <- msg:
		s.answers.Go(func() { s.await(msg, h) })
	case <-s.stopped:
		s.answers.Go(func() { s.handBack(h, 0) })
	}
}

// await waits for the answer to a message, and until SQS has it.
func (s *subscription) await(msg *message.Message, h *held) {
	select {
	case <-msg.Acked():
		s.ack(h)
	case <-msg.Nacked():
		s.handBack(h, queue.ReceiveOf(msg).Delay())
	case <-s.abandon:
		select {
		case <-msg.Acked(): // at the same moment
			s.ack(h)
		case <-msg.Nacked():
			s.handBack(h, queue.ReceiveOf(msg).Delay())
		default:
			s.handBack(h, 0)
		}
	}
}

// ack deletes. It ends the message's context first, so that the handler's part is
// over even if SQS takes its time.
func (s *subscription) ack(h *held) {
	h.cancel()
	s.mu.Lock()
	h.answered = true
	s.mu.Unlock()
	s.answered(h, func(done func(error)) { s.lane.remove.add(done, small, h.receipt) }, "delete")
}

// handBack changes the visibility. An extension that is under way must not come
// after it, or the message would be hidden from all.
func (s *subscription) handBack(h *held, delay time.Duration) {
	h.cancel()
	s.mu.Lock()
	h.answered = true
	for h.extending && s.life.Err() == nil {
		s.wake.Wait()
	}
	extending := h.extending
	s.mu.Unlock()
	if extending {
		return
	}
	change := visibility{h.receipt, seconds(min(delay, maxDelay))}
	s.answered(h, func(done func(error)) { s.lane.visibility.add(done, small, change) }, "hand back")
}

// answered sends an answer, waits for its outcome and frees the room. An answer that
// fails is not lost: the message comes again after its visibility timeout. So it does
// when the drain ends first, unless the answer still arrives.
func (s *subscription) answered(h *held, send func(func(error)), what string) {
	done := make(chan error, 1)
	send(func(err error) { done <- err })
	var err error
	select {
	case err = <-done:
	case <-s.life.Done():
		return
	}
	if failed, ok := errors.AsType[*entryError](err); ok && failed.lasting() {
		// The receipt expired: another consumer has or had the message.
		s.b.log.Info("answer came too late", zap.String("topic", s.topic), zap.String("answer", what), zap.Error(err))
	} else if err != nil {
		s.b.log.Warn("answer failed, the message comes again", zap.String("topic", s.topic), zap.String("answer", what), zap.Error(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.out, h)
	s.wake.Broadcast()
}

// heartbeat extends the visibility of what is held until ctx ends, and waits for the
// extensions that are under way then.
func (s *subscription) heartbeat(ctx context.Context) {
	tick := time.NewTicker(s.b.visibility / 6)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			for s.extensions > 0 && s.life.Err() == nil {
				s.wake.Wait()
			}
			return
		case <-tick.C:
		}
		now := time.Now()
		s.mu.Lock()
		for h := range s.out {
			if !h.extending && !h.answered && h.until.Sub(now) < s.b.visibility*2/3 {
				h.extending = true
				s.extensions++
				s.lane.visibility.add(func(err error) { s.extended(h, now, err) }, small, visibility{h.receipt, seconds(s.b.visibility)})
			}
		}
		s.mu.Unlock()
	}
}

// extended notes the outcome of an extension. A message that SQS no longer lets us
// hold is another consumer's soon: its handler is told by its context.
func (s *subscription) extended(h *held, began time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.extending = false
	s.extensions--
	s.wake.Broadcast()
	if err == nil {
		h.until = began.Add(s.b.visibility)
		return
	}
	if h.answered {
		return
	}
	if failed, ok := errors.AsType[*entryError](err); (ok && failed.lasting()) || time.Now().After(h.until) {
		h.cancel()
	}
	s.b.log.Warn("visibility not extended", zap.String("topic", s.topic), zap.Error(err))
}

// seconds rounds up, so that no delay gets shorter.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }
