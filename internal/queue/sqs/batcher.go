package sqs

import (
	"sync"
	"time"
)

const (
	// maxEntries is SQS's limit on the entries of a batch.
	maxEntries = 10
	// maxBatchBytes is SQS's limit on the size of a batch of messages.
	maxBatchBytes = 1 << 20
	// linger is the time for which an entry waits for other entries to share its request, while
	// another request is running. Without a running request, the entry does not wait.
	linger = 3 * time.Millisecond
)

// batcher joins the entries of many callers in requests of ten. If no request is running, the
// next request starts at once. Otherwise the next request starts when it is full, or when its
// first entry has waited for linger. At most parallel requests run at the same time.
type batcher[T any] struct {
	// do makes one request and returns an error, or nil, for each entry.
	do       func(entries []T) []error
	parallel int

	mu      sync.Mutex
	waiting []queued[T]
	running int
	// timer runs while an entry that is not in a full batch waits.
	timer *time.Timer
	// unanswered counts the entries without an answer. Close waits until it is zero.
	unanswered sync.WaitGroup
}

type queued[T any] struct {
	entry T
	size  int
	since time.Time
	done  func(error)
}

func newBatcher[T any](parallel int, do func([]T) []error) *batcher[T] {
	return &batcher[T]{do: do, parallel: parallel}
}

// add queues entries. done is called once for each entry, on another goroutine. size returns
// the bytes of entry i that count against maxBatchBytes.
func (b *batcher[T]) add(done func(error), size func(i int) int, entries ...T) {
	b.unanswered.Add(len(entries))
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, entry := range entries {
		b.waiting = append(b.waiting, queued[T]{entry, size(i), now, done})
	}
	b.start()
}

// small is the size of entries whose bytes have no limit.
func small(int) int { return 0 }

// start starts the requests that may start now. The caller holds mu.
func (b *batcher[T]) start() {
	for len(b.waiting) > 0 && b.running < b.parallel {
		n, full := b.next()
		wait := linger - time.Since(b.waiting[0].since)
		if !full && b.running > 0 && wait > 0 {
			b.wakeIn(wait)
			return
		}
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.running++
		go b.run(batch) // done of each entry and unanswered show the end of run
	}
}

// next returns the number of entries in the next batch, and whether the batch is full.
func (b *batcher[T]) next() (n int, full bool) {
	size := 0
	for n < len(b.waiting) && n < maxEntries {
		size += b.waiting[n].size
		if n > 0 && size > maxBatchBytes {
			return n, true
		}
		n++
	}
	return n, n == maxEntries
}

// wakeIn calls start after d. The caller holds mu.
func (b *batcher[T]) wakeIn(d time.Duration) {
	if b.timer != nil {
		return
	}
	b.timer = time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.timer = nil
		b.start()
	})
}

func (b *batcher[T]) run(batch []queued[T]) {
	entries := make([]T, len(batch))
	for i, q := range batch {
		entries[i] = q.entry
	}
	errs := b.do(entries)
	b.mu.Lock()
	b.running--
	b.start()
	b.mu.Unlock()
	for i, q := range batch {
		q.done(errs[i])
		b.unanswered.Done()
	}
}

// addAll queues small entries and waits for all of them. It returns the first error.
func (b *batcher[T]) addAll(entries []T) error {
	done := make(chan error, len(entries))
	b.add(func(err error) { done <- err }, small, entries...)
	var first error
	for range entries {
		if err := <-done; first == nil {
			first = err
		}
	}
	return first
}
