// Package memory lets the requests of a process share their reads.
//
// Package memory must never give a request the answer of a read that began before the request (I2),
// depend on the domain, or keep a key for which no request waits (I9).
package memory

import (
	"context"
	"maps"
	"sync"
	"time"

	"fanfare/internal/panics"
)

// Reads lets requests that need the same items at the same time share one consistent read. Sharing is
// necessary because one item serves at most 3,000 read units a second and cannot be split. But a
// celebrity's newest post is in very many homes, and a crowd likes the post, comments on it, and reads
// its author's profile.
//
// A request never uses the answer of a read that began before the request arrived, because a deletion
// may have been answered after the read of the item (I2). A request reads a key at once if no other
// request is reading the key. Otherwise the request waits for the next batch: one read of all such
// keys, which begins when the previous batch has ended. So at most two reads of a key run at a time,
// and a request waits for two reads at most, at any rate of requests.
type Reads[K comparable, V any] struct {
	read func(context.Context, []K) (map[K]V, error)

	mu sync.Mutex
	// single has the keys that one request is reading for itself.
	single map[K]bool
	// running is the batch that is being read, and waiting is the batch to which more keys are added. nil
	// means no batch.
	running, waiting *batch[K, V]
}

// batch is a read for several requests. The request that made the batch reads the batch to the end,
// even if that request is cancelled.
type batch[K comparable, V any] struct {
	// keys are in the order of their arrival. has contains the same keys.
	keys []K
	has  map[K]bool
	// done is closed when items and err are set.
	done  chan struct{}
	items map[K]V
	err   error
}

// ReadTime is the timeout of a read for several requests. Such a read does not end with the request
// that makes the read.
const ReadTime = 10 * time.Second

func (t *batch[K, V]) reads(key K) bool { return t != nil && t.has[key] }

// Share returns a Reads that reads its keys with read.
func Share[K comparable, V any](read func(context.Context, []K) (map[K]V, error)) *Reads[K, V] {
	return &Reads[K, V]{read: read, single: map[K]bool{}}
}

// Get reads distinct keys.
func (s *Reads[K, V]) Get(ctx context.Context, keys []K) (map[K]V, error) {
	now, waits, on, readBatch := s.arrive(keys)
	found := make(map[K]V, len(keys))
	reads := []func(context.Context) error{func(ctx context.Context) error { return s.readNow(ctx, now, found) }}
	if readBatch != nil {
		reads = append(reads, func(ctx context.Context) error { readBatch(ctx); return nil })
	}
	if err := panics.All(ctx, reads...); err != nil {
		return nil, err
	}
	if len(waits) == 0 {
		return found, context.Cause(ctx)
	}
	if err := Await(ctx, on.done); err != nil {
		return nil, err
	}
	if on.err != nil {
		return nil, on.err
	}
	for _, key := range waits {
		if it, ok := on.items[key]; ok {
			found[key] = it
		}
	}
	return found, nil
}

// arrive sorts the keys into keys to read now, and keys that wait for a batch. If this request made
// the batch, readBatch is not nil and the request must call readBatch.
func (s *Reads[K, V]) arrive(keys []K) (now, waits []K, on *batch[K, V], readBatch func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if !s.single[key] && !s.running.reads(key) && !s.waiting.reads(key) {
			s.single[key] = true
			now = append(now, key)
			continue
		}
		if s.waiting == nil {
			made, ahead := &batch[K, V]{has: map[K]bool{}, done: make(chan struct{})}, s.running
			s.waiting = made
			readBatch = func(ctx context.Context) { s.readBatch(ctx, made, ahead) }
		}
		if !s.waiting.reads(key) {
			s.waiting.keys, s.waiting.has[key] = append(s.waiting.keys, key), true
		}
		waits = append(waits, key)
	}
	return now, waits, s.waiting, readBatch
}

// readNow reads keys into found.
func (s *Reads[K, V]) readNow(ctx context.Context, keys []K, found map[K]V) error {
	if len(keys) == 0 {
		return nil
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, key := range keys {
			delete(s.single, key)
		}
	}()
	items, err := s.read(ctx, keys)
	maps.Copy(found, items)
	return err
}

// readBatch waits for the previous batch ahead, nil for none, and then reads the keys of t. readBatch
// always ends the batch t, because other requests wait for the batch.
func (s *Reads[K, V]) readBatch(ctx context.Context, t, ahead *batch[K, V]) {
	if ahead != nil {
		<-ahead.done
	}
	s.mu.Lock()
	s.running, s.waiting = t, nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReadTime)
	defer cancel()
	t.err = panics.Catch(func() (err error) { // without Catch, a panic would look like a read without items to waiting requests
		t.items, err = s.read(ctx, t.keys)
		return err
	})
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	close(t.done)
}

// Await waits until the read of another request is done. If ctx ends earlier or at the same time,
// Await returns the cause of ctx's end.
func Await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
	case <-ctx.Done():
	}
	if turn, ok := ctx.Value(turnKey{}).(func(context.Context)); ok {
		turn(ctx)
	}
	return context.Cause(ctx)
}

type turnKey struct{}

// WithTurn returns a context whose requests call turn after they have waited for the read of another
// request. At that moment many requests continue at once, and a simulation makes them continue one
// after another.
func WithTurn(ctx context.Context, turn func(context.Context)) context.Context {
	return context.WithValue(ctx, turnKey{}, turn)
}
