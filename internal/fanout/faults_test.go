package fanout_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/id"
	"fanfare/internal/panics"
	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/messages"
)

var errLost = &table.UnavailableError{Op: "test", Err: errors.New("injected")}

// faults are the ways in which one port call can go wrong.
var faults = []struct {
	name string
	// done means that the call has its effect although it returns an error.
	done bool
	// dies means that every later call of the same handler fails, too.
	dies bool
}{
	{name: "call fails"},
	{name: "answer is lost", done: true},
	{name: "worker dies before it", dies: true},
	{name: "worker dies after it", done: true, dies: true},
}

// TestAFaultAtAnyCallLosesNothingAndCountsNothingTwice makes each port call of a delivery fail
// in turn, with each fault. The failed message is redelivered.
func TestAFaultAtAnyCallLosesNothingAndCountsNothingTwice(t *testing.T) {
	for _, f := range faults {
		for _, n := range []int{3, 45} {
			t.Run(fmt.Sprintf("%s, %d followers", f.name, n), func(t *testing.T) {
				at := 0
				for fired := true; fired; at++ {
					w := newWorld(t, n, small)
					e := w.post()
					fired = w.drainWithFault(at, f.done, f.dies, e)
					w.wantDelivered(e.PostID, n)
					require.Falsef(t, t.Failed(), "failed with the fault at call %d", at)
				}
				require.GreaterOrEqualf(t, at, n, "only %d calls", at)
			})
		}
	}
}

// drainWithFault handles events and the messages that they cause. The port call with this number fails, and
// then the message of this call must fail (I5).
func (w *world) drainWithFault(number int, done, dies bool, events ...messages.Event) (fired bool) {
	w.Helper()
	seen, dead, failed := 0, false, false
	w.store.around = func(_ table.Op, _ []table.Key, do func() error) error {
		w.mu.Lock()
		now := seen == number
		seen++
		lost := now || dead
		if now {
			fired, dead = true, dies
		}
		w.mu.Unlock()
		if !lost {
			return do()
		}
		if now && done {
			if err := do(); err != nil {
				return err
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		failed = true
		return errLost
	}
	w.enqueue(events...)
	for e := w.take(); e != nil; e = w.take() {
		failed = false
		err := handle(w.Context(), w.worker, e)
		if failed && err == nil {
			w.Fatalf("call %d: %s was acked, though a call failed", number, messages.KindOf(e))
		}
		if _, later := errors.AsType[*queue.Later](err); err != nil && !later && !errors.Is(err, errLost) {
			w.Fatalf("call %d: %v", number, err)
		}
		if err != nil {
			w.enqueue(e) // the message is redelivered to a live process
		}
		w.mu.Lock()
		dead = false
		w.mu.Unlock()
	}
	return fired
}

// TestTwoWorkersOnOneMessageConverge has a second worker that cuts chunks of another size. At each port call
// of the first worker in turn, the second worker handles the same message and all messages that follow from
// it. In some runs there are also new followers at this call.
func TestTwoWorkersOnOneMessageConverge(t *testing.T) {
	for _, n := range []int{3, 45, 100} {
		for i, arrivals := range []int{0, 3, 30} {
			t.Run(fmt.Sprintf("%d followers and %d", n, arrivals), func(t *testing.T) {
				at, step := 0, 1
				if n == 100 { // each of the three runs takes every third call
					at, step = i, 3
				}
				for fired := true; fired; at += step {
					w := newWorld(t, n, small)
					other := w.newWorker(small, func(c *fanout.Config) { c.ChunkSize, c.PlanChunks = 5, 20 })
					e := w.post()
					var current messages.Event
					change := w.atCall(at, func() {
						for i := range arrivals {
							w.follow(fmt.Sprintf("%s-%d", follower(2*i), i), id.Min)
						}
						assert.NoError(t, handle(t.Context(), other, current))
						w.drain(other)
					})
					w.enqueue(e)
					for current = w.take(); current != nil; current = w.take() {
						w.must(handle(t.Context(), w.worker, current))
					}
					fired = change()
					for i := range n {
						w.wantHome(follower(i), e.PostID)
					}
					if fired {
						for i := range arrivals {
							w.wantHome(fmt.Sprintf("%s-%d", follower(2*i), i), e.PostID)
						}
					}
					d := w.delivery(e.PostID)
					if d.State != delivery.Complete || *d.Delivered < int64(n+1) || *d.Delivered > int64(n+arrivals+1) {
						t.Errorf("delivery is %s with %d", d.State, *d.Delivered)
					}
					require.Falsef(t, t.Failed(), "failed with the other worker at call %d", at)
				}
				require.GreaterOrEqualf(t, at, 5, "only %d calls", at)
			})
		}
	}
}

// TestManyWorkersAtOnce gives every message to three of four workers at the same time. Each
// worker cuts chunks of another size.
func TestManyWorkersAtOnce(t *testing.T) {
	const n = 400
	w := newWorld(t, n, small)
	var workers []*fanout.Worker
	for _, size := range []int{3, 7, 11, 16} {
		workers = append(workers, w.newWorker(small, func(c *fanout.Config) { c.ChunkSize, c.Writers = size, 4 }))
	}
	e := w.post()
	w.enqueue(e)
	for {
		batch := map[string]messages.Event{} // keeps one of the equal messages of three workers
		for e := w.take(); e != nil; e = w.take() {
			batch[fmt.Sprintf("%T %s", e, first(e))] = e
		}
		if len(batch) == 0 {
			break
		}
		keys := slices.Sorted(maps.Keys(batch))
		var working sync.WaitGroup
		for i, worker := range workers {
			working.Go(func() {
				for j, key := range keys {
					if i != j%len(workers) {
						if err := handle(t.Context(), worker, batch[key]); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		working.Wait()
	}
	w.wantDelivered(e.PostID, n)
}

// first returns the follower at which a message's range begins.
func first(e messages.Event) string {
	switch e := e.(type) {
	case *messages.FanoutPlan:
		return e.First
	case *messages.FanoutChunk:
		return e.First
	}
	return ""
}

func TestThrottlingNarrowsTheWritesAndTimeWidensThem(t *testing.T) {
	const n = 400
	w := newWorld(t, n, func(c *fanout.Config) { c.PageSize, c.ChunkSize, c.Writers = n+1, n, 8 })
	writes, throttled := 0, true
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		w.mu.Lock()
		if op == table.OpBatchWrite {
			writes++
		}
		fail := throttled && op == table.OpBatchWrite
		w.mu.Unlock()
		if fail {
			return errLost
		}
		return do()
	}
	e := w.post()
	require.ErrorIs(t, w.worker.HandlePosts(t.Context(), e), errLost)
	assert.Equal(t, 8+4+2+1, writes, "writes under throttling: each round half as many")
	throttled = false
	for want := 1; want <= 8; want++ {
		writes = 0
		w.must(w.worker.HandlePosts(t.Context(), w.post()))
		if requests := (n + 24) / 25; writes != (requests+(requests+want-1)/want-1)/((requests+want-1)/want) {
			t.Errorf("%d writes for a page, at most %d at once", writes, want)
		}
	}
}

// If the store had to retry a tenth of a page's writes, the next page is written in half as many parts,
// although the store wrote the page in the end. Fewer refusals come from a hot partition and must change
// nothing: a smaller number of parts would slow down the pages of all authors (I8).
func TestAThrottledPageHalvesThePartsOfTheNext(t *testing.T) {
	assert.Equal(t, []int{8, 4, 2, 1, 1, 2, 3, 4}, partsOfPages(t, 40, 4), "a page has 16 requests")
	assert.Equal(t, []int{8, 8, 8, 8, 8, 8, 8, 8}, partsOfPages(t, 4, 8), "up to 32 of 400 writes are refused")
}

// partsOfPages delivers eight posts, each in one page of 400 entries. During the first short pages, the store
// reports this number of refusals for each part. It returns the number of parts of each page.
func partsOfPages(t *testing.T, refusals, short int) (seen []int) {
	t.Helper()
	const n = 400
	w := newWorld(t, n, func(c *fanout.Config) { c.PageSize, c.ChunkSize, c.Writers = n+1, n, 8 })
	var writes int
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		w.mu.Lock()
		if op == table.OpBatchWrite {
			writes++
		}
		w.mu.Unlock()
		return do()
	}
	for post := range 8 {
		if w.store.short, writes = refusals, 0; post >= short {
			w.store.short = 0
		}
		w.must(w.worker.HandlePosts(t.Context(), w.post()))
		seen = append(seen, writes)
	}
	return seen
}

// Parts that fail because of a hot partition do not reduce the parts of another post's page (I8). Parts that
// fail for lack of capacity reduce them.
func TestPartsThatFailForAHotPartitionNarrowNoOtherPage(t *testing.T) {
	for refusals, parts := range map[int]int32{1: 8, table.MaxBatchWrite: 1} {
		w := newWorld(t, 400, func(c *fanout.Config) { c.PageSize, c.ChunkSize, c.Writers = 401, 400, 8 })
		var writes atomic.Int32
		var failed error
		w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
			if op != table.OpBatchWrite {
				return do()
			}
			writes.Add(1)
			return errors.Join(do(), failed)
		}
		w.store.short, failed = refusals, &table.UnavailableError{Reason: table.ShortUnknown}
		require.Error(t, w.worker.HandlePosts(t.Context(), w.post()))
		w.store.short, failed = 0, nil
		writes.Store(0)
		w.must(w.worker.HandlePosts(t.Context(), w.post()))
		assert.Equal(t, parts, writes.Load(), "after %d refusals in each part", refusals)
	}
}

func TestOnlyTheThrottledPartIsWrittenAgain(t *testing.T) {
	const n = 400
	w := newWorld(t, n, func(c *fanout.Config) { c.PageSize, c.Writers = n+1, 8 })
	calls := 0
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		if op != table.OpBatchWrite {
			return do()
		}
		w.mu.Lock()
		calls++
		fail := calls == 3 || calls == 6
		w.mu.Unlock()
		if fail {
			return errLost
		}
		return do()
	}
	e := w.post()
	w.enqueue(e)
	w.drain(w.worker)
	assert.Equal(t, 8+4, calls) // the failed parts are four requests of 25, and four may now run at once
	w.wantDelivered(e.PostID, n)
}

// TestAPanicAtAnyCallIsAnErrorOfItsMessage makes each port call of a delivery panic in turn.
// The test recovers a panic on the handler's own goroutine, as the consumer does. The worker
// recovers a panic on any other goroutine. In both cases the message is redelivered.
func TestAPanicAtAnyCallIsAnErrorOfItsMessage(t *testing.T) {
	const n = 170 // three chunks, of which the first two have two pages; a page has three parts
	for at, fired := 0, true; fired; at++ {
		w := newWorld(t, n, func(c *fanout.Config) { c.PageSize, c.ChunkSize, c.Writers = 75, 80, 3 })
		seen := 0
		fired = false
		w.store.around = func(_ table.Op, _ []table.Key, do func() error) error {
			w.mu.Lock()
			now := seen == at
			seen++
			fired = fired || now
			w.mu.Unlock()
			if now {
				panic("boom")
			}
			return do()
		}
		post := w.post()
		w.enqueue(post)
		for e := w.take(); e != nil; e = w.take() {
			err := panics.Catch(func() error { return handle(t.Context(), w.worker, e) })
			if err == nil {
				continue
			}
			require.ErrorAsf(t, err, new(*panics.Error), "call %d: %s failed with", at, messages.KindOf(e))
			w.enqueue(e)
		}
		w.wantDelivered(post.PostID, n)
		require.Falsef(t, t.Failed(), "failed with the panic at call %d", at)
	}
}

func TestAWriteThatCanNeverSucceedIsNotTriedAgain(t *testing.T) {
	w := newWorld(t, 30, func(c *fanout.Config) { c.Writers = 8 })
	calls := 0
	w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
		if op != table.OpBatchWrite {
			return do()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		calls++
		return &table.InvalidError{Problem: "injected"}
	}
	err := w.worker.HandlePosts(t.Context(), w.post())
	if _, invalid := errors.AsType[*table.InvalidError](err); !invalid || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
