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

	"fanfare/internal/awsclient"
	"fanfare/internal/backoff"
	"fanfare/internal/queue"
)

const (
	// pollTimeout bounds a receive, together with the time that it waits for messages.
	pollTimeout = 15 * time.Second
	// maxDelay is the maximum visibility timeout of SQS.
	maxDelay = 12 * time.Hour
)

// subscription delivers the messages of one queue to one channel.
//
// A subscription has a goroutine for each poller, for each unanswered message, and for the
// heartbeat. run waits for all these goroutines. Whatever SQS does, the subscription ends at
// most Options.Drain after the end of the last poll.
type subscription struct {
	b       *Broker
	topic   string
	queue   *remoteQueue
	channel chan *message.Message
	max     int
	// abandon is closed when the grace after the stop is over.
	abandon chan struct{}
	// life ends when the drain is over. Then no goroutine waits for SQS any longer.
	life    context.Context //nolint:containedctx // this is the life of the subscription
	answers sync.WaitGroup
	outage  *queue.Outage

	mu   sync.Mutex
	wake sync.Cond
	// out has the received messages whose answer SQS does not have yet.
	out map[*held]struct{}
	// polling is the number of running polls. reserved is the number of messages that these polls may deliver.
	reserved, polling int
	// wanted is the number of polls that may run. It grows after a full poll, and shrinks after an empty poll.
	wanted int
	// extensions is the number of running extensions.
	extensions int
	stopped    bool
}

// held is a received message without an answer.
type held struct {
	receipt string
	// message, id and group are needed for a copy.
	message *types.Message
	id      string
	group   *string
	past    carried
	// until is the end of the visibility timeout if there is no further extension.
	until time.Time
	// extending means that an extension is running. After answered is set, no further extension may begin.
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
	q, err := b.findTopic(ctx, topic, "")
	if err != nil {
		end()
		return nil, fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	s := &subscription{
		b: b, topic: topic, queue: q, channel: make(chan *message.Message),
		max:     defaultTo(b.opt.MaxInFlight[topic], DefaultMaxInFlight),
		abandon: make(chan struct{}), out: map[*held]struct{}{}, wanted: 1, outage: queue.NewOutage(),
	}
	s.wake.L = &s.mu
	go func() { // end reports its end to Close
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
	taking, stop := context.WithCancel(ctx)
	defer stop()
	for range s.b.opt.Pollers {
		pollers.Go(func() { s.poll(taking) })
	}
	select {
	case <-ctx.Done():
	case <-s.b.stopping:
	}
	stop()
	s.mu.Lock()
	s.stopped = true
	s.wake.Broadcast()
	s.mu.Unlock()
	grace := time.AfterFunc(s.b.opt.Grace, func() { close(s.abandon) })
	drained := time.AfterFunc(s.b.opt.Grace+s.b.opt.PollWait+s.b.opt.Drain, cut)
	pollers.Wait()
	s.answers.Wait()
	grace.Stop()
	drained.Stop()
	stopHeart()
	heart.Wait()
	if left := len(s.out); left > 0 {
		s.b.opt.Log.Warn("SQS took no answer before the stop, the messages come again after their visibility timeout",
			zap.String("topic", s.topic), zap.Int("messages", left))
	}
}

// reserve waits until another poll may run. It returns the number of messages that the poll may request, 0
// after the stop. If there is any room, one poll may run. Further polls wait until there is room for ten
// messages.
func (s *subscription) reserve() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.stopped {
			return 0
		}
		room := s.max - len(s.out) - s.reserved
		if s.polling == 0 && room > 0 || s.polling < s.wanted && room >= maxEntries && s.outage.Rest() == 0 {
			n := min(room, maxEntries)
			s.reserved += n
			s.polling++
			return n
		}
		s.wake.Wait()
	}
}

// release ends a poll that had reserved room for n messages, and adds the received messages to out.
func (s *subscription) release(n int, came []*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= n
	s.polling--
	switch len(came) {
	case n:
		s.wanted = min(s.wanted+1, s.b.opt.Pollers)
	case 0:
		s.wanted = max(s.wanted-1, 1)
	}
	for _, h := range came {
		s.out[h] = struct{}{}
	}
	s.wake.Broadcast()
}

// poll receives and delivers until taking ends.
func (s *subscription) poll(taking context.Context) {
	pause, failures := backoff.Exponential{First: 100 * time.Millisecond, Most: 5 * time.Second}, 0
	for {
		n := s.reserve()
		if n == 0 {
			return
		}
		if s.outage.Wait(taking) != nil {
			s.release(n, nil)
			continue
		}
		received, err := s.receive(n)
		holds := make([]*held, len(received))
		msgs := make([]*message.Message, len(received))
		for i := range received {
			msgs[i], holds[i] = s.open(taking, &received[i])
		}
		s.release(n, holds)
		if err != nil {
			failures++
			wait := pause.Bound(failures)
			s.b.opt.Log.Warn("receive failed", zap.String("topic", s.topic), zap.Duration("next_in", wait), zap.Error(err))
			_ = backoff.Wait(taking, wait) // after the stop, reserve returns 0
			continue
		}
		failures = 0
		for i := range msgs {
			s.deliver(taking, msgs[i], holds[i])
		}
	}
}

// receive makes one request. The stop does not cancel the request, because a reply that nobody
// reads would hide its messages for their visibility timeout. Only the end of the drain cancels
// the request.
func (s *subscription) receive(n int) ([]types.Message, error) {
	ctx, cancel := context.WithTimeout(s.life, s.b.opt.PollWait+pollTimeout)
	defer cancel()
	out, err := s.b.client.ReceiveMessage(awsclient.Patient(ctx, s.b.opt.PollWait), &sqs.ReceiveMessageInput{
		QueueUrl: &s.queue.url, MaxNumberOfMessages: int32(n),
		VisibilityTimeout: seconds(s.b.opt.Visibility), WaitTimeSeconds: seconds(s.b.opt.PollWait),
		MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp,
			types.MessageSystemAttributeNameMessageGroupId,
		},
	})
	if err != nil {
		return nil, s.b.classify("receive messages", err)
	}
	return out.Messages, nil
}

// open makes a Watermill message from m. The message is nil if m cannot be read.
func (s *subscription) open(taking context.Context, m *types.Message) (*message.Message, *held) {
	h := &held{receipt: aws.ToString(m.ReceiptHandle), until: time.Now().Add(s.b.opt.Visibility), cancel: func() {}, message: m, past: carriedBy(m)}
	msg, err := unmarshal(m)
	if err != nil {
		// The message is redelivered until SQS's own redrive policy makes it a dead
		// letter.
		s.b.opt.Log.Error("message cannot be read", zap.String("topic", s.topic), zap.String("sqs_message_id", aws.ToString(m.MessageId)), zap.Error(err))
		return nil, h
	}
	receives, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil || receives < 1 {
		receives = 1
	}
	h.id, h.group = msg.UUID, groupOf(m, msg)
	if h.past.first.IsZero() {
		if sent, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
			h.past.first = time.UnixMilli(sent)
		}
	}
	receives += h.past.receives
	// The message's context lives longer than the subscription's context, by the grace.
	msgCtx, cancel := context.WithCancel(queue.WithReceive(context.WithoutCancel(taking), queue.NewReceive(receives)))
	h.cancel = cancel
	msg.SetContext(msgCtx)
	return msg, h
}

// deliver sends a message to the channel and starts a goroutine that waits for the answer.
// After the stop, deliver hands the message back. It puts off a copy that is not due yet.
func (s *subscription) deliver(taking context.Context, msg *message.Message, h *held) {
	if msg == nil {
		s.answers.Go(func() { s.handBack(h, queue.Backoff(1)) })
		return
	}
	if wait := s.b.notDue(h.past); wait > 0 {
		s.answers.Go(func() { s.putOff(h, h.past.receives, wait) })
		return
	}
	if queue.ReceiveOf(msg).Receives > maxReceiveCount {
		s.answers.Go(func() { s.bury(h, msg) })
		return
	}
	if taking.Err() == nil {
		select {
		case s.channel <- msg:
			s.answers.Go(func() { s.await(msg, h) })
			return
		case <-taking.Done():
		}
	}
	s.answers.Go(func() { s.handBack(h, 0) })
}

// heartbeat extends the visibility timeout of the held messages until ctx ends. Then it
// waits for the running extensions.
func (s *subscription) heartbeat(ctx context.Context) {
	tick := time.NewTicker(s.b.opt.Visibility / 6)
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
			if !h.extending && !h.answered && h.until.Sub(now) < s.b.opt.Visibility*2/3 {
				h.extending = true
				s.extensions++
				s.queue.visibility.add(func(err error) { s.extended(h, now, err) }, small, visibility{h.receipt, seconds(s.b.opt.Visibility)})
			}
		}
		s.mu.Unlock()
	}
}

// extended notes the outcome of an extension. If SQS refuses the extension, another consumer
// gets the message. The end of the message's context shows that to the handler.
func (s *subscription) extended(h *held, began time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.extending = false
	s.extensions--
	s.wake.Broadcast()
	if err == nil {
		h.until = began.Add(s.b.opt.Visibility)
		return
	}
	if h.answered {
		return
	}
	if failed, ok := errors.AsType[*entryError](err); (ok && failed.lasting()) || time.Now().After(h.until) {
		h.cancel()
	}
	s.b.opt.Log.Warn("visibility not extended", zap.String("topic", s.topic), zap.Error(err))
}

// seconds returns d in seconds, rounded up, so that no delay becomes shorter.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }
