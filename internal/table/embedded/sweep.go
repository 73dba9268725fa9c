package embedded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"fanfare/internal/table"
)

// The sweep walks over the whole table, a chunk at a time with a pause after each,
// so that its cost is a bounded share of the machine however large the table is.
// Until it comes by, an expired item stays readable, as on DynamoDB.

const (
	sweepChunk = 2000
	sweepPause = 50 * time.Millisecond
	sweepGroup = 64 // writers wait for no more than this at once
	opSweep    = table.Op("sweep")
)

// Sweep deletes all items whose ttl has passed, and hints that hint at nothing. It
// returns how many items it deleted.
func (s *Store) Sweep(ctx context.Context) (int, error) { return s.sweep(ctx, 0) }

func (s *Store) sweepForever(ctx context.Context, every time.Duration, log *zap.Logger) {
	for sleep(ctx, every) {
		n, err := s.sweep(ctx, sweepPause)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Warn("table sweep failed, and is tried again", zap.Error(err))
		case n > 0:
			log.Info("table sweep deleted expired items", zap.Int("items", n))
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Store) sweep(ctx context.Context, pause time.Duration) (int, error) {
	deleted := 0
	for _, kind := range []byte{kindItem, kindIndex} {
		from := []byte{kind}
		for from != nil {
			n, next, err := s.sweepSome(ctx, kind, from)
			deleted += n
			if err != nil {
				return deleted, err
			}
			from = next
			if pause > 0 && !sleep(ctx, pause) {
				return deleted, ctx.Err()
			}
		}
	}
	return deleted, nil
}

// sweepSome sweeps one chunk and returns where the next begins, nil at the end.
func (s *Store) sweepSome(ctx context.Context, kind byte, from []byte) (int, []byte, error) {
	if err := s.enter(ctx, opSweep); err != nil {
		return 0, nil, err
	}
	defer s.leave()
	found, next, err := s.candidates(kind, from)
	if err != nil || len(found) == 0 {
		return 0, next, unavailable(opSweep, err)
	}
	deleted := 0
	for group := range slices.Chunk(found, sweepGroup) {
		n, err := s.sweepThese(ctx, kind, group)
		if err != nil {
			return deleted, nil, unavailable(opSweep, err)
		}
		deleted += n
	}
	return deleted, next, nil
}

// sweepThese deletes those of some candidates that are what they seemed to be.
func (s *Store) sweepThese(ctx context.Context, kind byte, found []candidate) (int, error) {
	var set lockSet
	for _, c := range found {
		hash, _ := s.hash.of(c.key)
		set.add(hash, true)
	}
	st := stage{store: s, batch: s.db.NewBatch()}
	deleted := 0
	s.locks.lock(&set)
	for _, c := range found {
		// Looked at again under its lock: it may have changed meanwhile.
		it, _, err := s.read(&st.buf, c.key, nil)
		if err != nil {
			s.locks.unlock(&set)
			return 0, st.drop(err)
		}
		switch {
		case kind == kindIndex && !hinted(it, c.pk, c.sk):
			_ = st.batch.Delete(indexKey(c.pk, c.sk, c.key), nil) // cannot fail, see put
		case kind == kindItem && it != nil && table.Expired(*it, s.now()):
			st.write(c.key, s.hash.partition(c.key.PK), it, nil)
			deleted++
		}
	}
	if st.batch.Empty() {
		s.locks.unlock(&set)
		return 0, st.drop(nil)
	}
	c := s.commits.apply(st.batch, st.slots)
	s.locks.unlock(&set)
	return deleted, s.await(ctx, c)
}

// candidate is an item that may be expired, or that a hint may be wrong about.
type candidate struct {
	key    table.Key
	pk, sk string
}

// candidates looks at a chunk of records.
func (s *Store) candidates(kind byte, from []byte) (found []candidate, next []byte, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{kind + 1}})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	now := s.now().Unix()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > sweepChunk {
			return found, slices.Clone(it.Key()), nil
		}
		c, seems, err := s.candidate(kind, it, now)
		if err != nil {
			return nil, nil, err
		}
		if seems {
			found = append(found, c)
		}
	}
	return found, nil, it.Error()
}

func (s *Store) candidate(kind byte, it *pebble.Iterator, now int64) (c candidate, seems bool, err error) {
	if kind == kindIndex {
		if c.pk, c.sk, c.key, err = parseIndexKey(it.Key()); err != nil {
			return c, false, err
		}
		var buf keyBuffer
		item, _, err := s.read(&buf, c.key, nil)
		return c, !hinted(item, c.pk, c.sk), err
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return c, false, err
	}
	if ttl, ok := ttlOf(value); !ok || ttl > now {
		return c, false, nil
	}
	c.key, err = parseKey(it.Key())
	return c, true, err
}
