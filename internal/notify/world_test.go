package notify_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/internal/notify"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// world is a table in memory, a queue and a notifier, in virtual time.
type world struct {
	*tabletest.Memory

	t     *testing.T
	ids   *id.Generator
	post  string // a post of ann
	clock *clock.Clock
	skew  time.Duration // the error of the notifier's clock
	cfg   notify.Config

	// seen guards the fields below, which several workers write. The test reads the fields while all
	// workers wait.
	seen sync.Mutex
	// beforePut, if set, is called with the number of the put before each put. Its error makes the put fail.
	// After errLost, the put fails but has its effect.
	beforePut func(n int) error
	// slowRead, if set, is called after each batch of reads.
	slowRead    func()
	puts        int
	read, wrote float64 // the units of reads and writes
	out         []notify.Outcome
	notified    []*messages.Notified
	unsent      error

	mu       sync.Mutex
	messages []*queued
	changed  chan struct{}
	dead     []string
	receives int
}

type queued struct {
	msg      *message.Message
	visible  time.Time
	receives int
}

var errLost = errors.New("the answer was lost")

// play runs f with a notifier in virtual time, on one thread.
func play(t *testing.T, f func(w *world)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		w := &world{Memory: tabletest.NewMemory(), t: t, changed: make(chan struct{})}
		w.ids = id.NewSeededGenerator(w.now, rand.NewChaCha8([32]byte{1}))
		<-time.After(time.Hour)
		w.post = w.newID()
		w.put(schema.PostRef{ID: w.post, Author: "ann", LikeShards: 1}.Item())
		w.put(schema.Profile{User: "ann", Name: "Ann", CreatedAt: time.Now()}.Item())
		w.cfg = notify.Config{
			Store: table.Measure(w, w.used), Broker: w, IDs: w.ids, Now: w.now, Window: 2 * time.Second,
			Observe: func(o notify.Outcome) { w.note(func() { w.out = append(w.out, o) }) },
			Events: func(_ context.Context, events ...messages.Event) error {
				for _, e := range events {
					n, ok := e.(*messages.Notified)
					require.True(t, ok)
					w.note(func() { w.notified = append(w.notified, n) })
				}
				return w.unsent
			},
		}
		f(w)
	})
}

// run starts a notifier and stops it after f.
func (w *world) run(f func()) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	n := notify.New(w.cfg)
	go func() { ended <- n.Run(ctx) }()
	f()
	stop()
	require.NoError(w.t, <-ended)
}

// pass lets virtual time pass, until all goroutines wait again.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) now() time.Time { return time.Now().Add(w.skew) }

func (w *world) note(f func()) {
	w.seen.Lock()
	defer w.seen.Unlock()
	f()
}

func (w *world) used(_ table.Op, u table.Units, _ error) {
	w.note(func() { w.read += u.Read; w.wrote += u.Write })
}

func (w *world) newID() string {
	made, err := w.ids.New()
	require.NoError(w.t, err)
	return made
}

func (w *world) put(it table.Item) {
	_, err := w.Memory.Put(w.t.Context(), table.PutInput{Item: it})
	require.NoError(w.t, err)
}

func (w *world) drop(key table.Key) {
	_, err := w.Memory.Delete(w.t.Context(), table.DeleteInput{Key: key})
	require.NoError(w.t, err)
}

// notice returns a notification of ann, without actions if the table has none.
func (w *world) notice(kind schema.NoticeKind, target string) schema.Notice {
	res, err := w.Get(w.t.Context(), table.GetInput{Key: schema.NoticeKey("ann", kind, target), Consistent: true})
	require.NoError(w.t, err)
	if res.Item == nil {
		return schema.Notice{}
	}
	n, err := schema.ParseNotice(*res.Item)
	require.NoError(w.t, err)
	return n
}

// likers returns the users whose likes hold in the notification of ann's post.
func (w *world) likers() (users []string) {
	for _, act := range w.notice(schema.NoticeLike, w.post).Acts {
		if act.Holds() {
			users = append(users, act.User)
		}
	}
	return users
}

// Put implements table.Store.
func (w *world) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	var planned error
	w.note(func() {
		w.puts++
		if w.beforePut != nil {
			planned = w.beforePut(w.puts)
		}
	})
	if planned != nil && !errors.Is(planned, errLost) {
		return table.WriteResult{}, planned
	}
	res, err := w.Memory.Put(ctx, in)
	if planned != nil && err == nil {
		return table.WriteResult{}, &table.UnavailableError{Op: "put", Err: planned}
	}
	return res, err
}

// BatchGet implements table.Store.
func (w *world) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	res, err := w.Memory.BatchGet(ctx, in)
	if w.slowRead != nil {
		w.slowRead()
	}
	return res, err
}

func refused() error {
	return &table.UnavailableError{Op: "put", Err: errors.New("planned"), Reason: table.ShortKeyRange, Undone: true}
}

// send publishes events. Events without ids get new ids.
func (w *world) send(events ...messages.Event) {
	for _, e := range events {
		if e.Head().EventID == "" {
			e.Head().EventID, e.Head().Time = w.newID(), time.Now()
		}
		msg, err := queue.Message(w.t.Context(), e)
		require.NoError(w.t, err)
		w.change(func() { w.messages = append(w.messages, &queued{msg: msg}) })
	}
}

func (w *world) like(user string, liked bool) *messages.LikeCounted {
	e := counted(w.newID(), w.post, user, liked)
	w.send(e)
	return e
}

// counted returns the event about a like of a post by "ann", or about the end of such a like.
func counted(version, post, user string, liked bool) *messages.LikeCounted {
	e := &messages.LikeCounted{Header: messages.Header{EventID: version, Time: time.Now()}, PostID: post, AuthorID: "ann", UserID: user, Liked: liked}
	if liked {
		e.Reaction = "like"
	}
	return e
}

// settle waits until the queue is empty.
func (w *world) settle() {
	w.t.Helper()
	for range 2000 {
		pass(time.Second)
		if w.left() == 0 {
			return
		}
	}
	w.t.Fatalf("%d messages never settle", w.left())
}

func (w *world) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.messages)
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// Subscribe delivers each message until it is acked.
func (w *world) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	require.Equal(w.t, queue.TopicNotices, topic)
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		var answers sync.WaitGroup
		defer answers.Wait()
		for ctx.Err() == nil {
			m, changed, next := w.receive()
			if m == nil {
				select {
				case <-changed:
				case <-time.After(next):
				case <-ctx.Done():
				}
				continue
			}
			msg, receive := message.NewMessage(m.msg.UUID, m.msg.Payload), queue.NewReceive(m.receives)
			msg.SetContext(queue.WithReceive(context.Background(), receive))
			select {
			case out <- msg:
			case <-ctx.Done():
				return
			}
			answers.Go(func() {
				select {
				case <-msg.Acked():
					w.change(func() { w.messages = slices.DeleteFunc(w.messages, func(o *queued) bool { return o == m }) })
				case <-msg.Nacked():
					w.change(func() { m.visible, m.receives = time.Now().Add(receive.Delay()), receive.Behind() })
				}
			})
		}
	}()
	return out, nil
}

func (w *world) receive() (*queued, <-chan struct{}, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := time.Hour
	for _, m := range w.messages {
		wait := time.Until(m.visible)
		if wait <= 0 {
			m.receives++
			w.receives++
			m.visible = time.Now().Add(30 * 24 * time.Hour) // the message is held until its answer
			return m, nil, 0
		}
		next = min(next, wait)
	}
	return nil, w.changed, next
}

// Close implements message.Subscriber.
func (w *world) Close() error { return nil }

// DeadLetter implements queue.DeadLetters.
func (w *world) DeadLetter(_ context.Context, _ string, msg *message.Message, reason string) error {
	w.note(func() { w.dead = append(w.dead, msg.UUID+": "+reason) })
	return nil
}

// ListDead implements queue.DeadLetters.
func (w *world) ListDead(context.Context, string, int) ([]queue.DeadLetter, error) { return nil, nil }

// Redrive implements queue.DeadLetters.
func (w *world) Redrive(context.Context, string, []string, func(queue.DeadLetter) error) (sent, refused int, err error) {
	return 0, 0, nil
}

// DropDead implements queue.DeadLetters.
func (w *world) DropDead(context.Context, string, []string) (int, error) { return 0, nil }

// results returns the results of the windows so far.
func (w *world) results() string {
	var names []string
	for _, o := range w.out {
		names = append(names, string(o.Result))
	}
	return strings.Join(names, " ")
}
