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
	// linger is how long an entry waits for other entries to share its request while
	// another request is running. Otherwise the entry does not wait.
	linger = 3 * time.Millisecond
)

// batcher joins the entries of many callers in requests of ten. If no request is running,
// the next one starts at once. Otherwise it starts when it is full, or its first entry has
// waited for linger, and when fewer than parallel requests are running.
type batcher[T any] struct {
	// do makes one request and returns an error, or nil, for each entry.
	do       func(entries []T) []error
	parallel int

	mu      sync.Mutex
	waiting []queued[T]
	running int
	// timer runs while an entry outside of a full batch waits.
	timer *time.Timer
	// unanswered counts the entries without an answer. Close waits for it.
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

// add queues entries. done is called once for each entry, from another goroutine. size
// returns the bytes of an entry that count against maxBatchBytes.
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

// small is the size of entries that have no limit in bytes.
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
		go b.run(batch) // the callers of add wait for it by done, Close by unanswered
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
