package sqs

import (
	"sync"
	"time"
)

const (
	// maxEntries is how many entries SQS takes in a batch.
	maxEntries = 10
	// maxBatchBytes is how large a batch of messages may be.
	maxBatchBytes = 1 << 20
	// linger is how long an entry waits for company while another request of its
	// kind is under way. When none is, it does not wait.
	linger = 3 * time.Millisecond
)

// batcher joins the entries of many callers in requests of ten. A request goes out
// at once when none is under way; else when it is full, or its first entry has
// waited for linger, if no more than lanes are under way.
type batcher[T any] struct {
	// do makes one request and returns an error, or nil, for each entry.
	do    func(entries []T) []error
	lanes int

	mu      sync.Mutex
	waiting []queued[T]
	running int
	// timer runs while an entry waits that is not in a full batch.
	timer *time.Timer
	// all counts entries that are not answered; Wait is for the shutdown.
	all sync.WaitGroup
}

type queued[T any] struct {
	entry T
	size  int
	since time.Time
	done  func(error)
}

func newBatcher[T any](lanes int, do func([]T) []error) *batcher[T] {
	return &batcher[T]{do: do, lanes: lanes}
}

// add hands in entries. done is called once for each, from another goroutine; size
// tells what an entry counts against maxBatchBytes.
func (b *batcher[T]) add(done func(error), size func(i int) int, entries ...T) {
	b.all.Add(len(entries))
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, entry := range entries {
		b.waiting = append(b.waiting, queued[T]{entry, size(i), now, done})
	}
	b.start()
}

// small is the size of entries that no limit of bytes concerns.
func small(int) int { return 0 }

// start sends what may go now. The caller holds mu.
func (b *batcher[T]) start() {
	for len(b.waiting) > 0 && b.running < b.lanes {
		n, full := b.next()
		wait := linger - time.Since(b.waiting[0].since)
		if !full && b.running > 0 && wait > 0 {
			b.wakeIn(wait)
			return
		}
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.running++
		go b.run(batch) // owned by the entries' callers: they wait for done, Close for all
	}
}

// next returns how many entries the next batch has and whether no more would fit.
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

// wakeIn looks again after d. The caller holds mu.
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
		b.all.Done()
	}
}

// addAll hands in small entries and waits for all of them.
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
