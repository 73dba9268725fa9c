package embedded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/table"
)

// The sweep walks over the whole table in parts, with a pause after each part. So its cost is a
// bounded share of the machine for a table of any size. An expired item stays readable until
// the sweep deletes the item, as on DynamoDB.

const (
	sweepPart  = 2000 // number of records
	sweepPause = 50 * time.Millisecond
	sweepGroup = 64 // the maximum number of items that are deleted under their locks at once
	opSweep    = table.Op("sweep")
)

// Sweep deletes all items whose ttl has passed, and all wrong hints. It returns the number of
// deleted items. While the clock is in doubt, Sweep deletes nothing and returns an error.
func (s *Store) Sweep(ctx context.Context) (int, error) { return s.sweep(ctx, 0) }

func (s *Store) sweepForever(ctx context.Context, every time.Duration, log *zap.Logger) {
	for backoff.Wait(ctx, every) == nil {
		n, err := s.sweep(ctx, sweepPause)
		switch {
		case ctx.Err() != nil || s.doubt() != nil:
		case err != nil:
			log.Warn("table sweep failed and is tried again", zap.Error(err))
		case n > 0:
			log.Info("table sweep deleted expired items", zap.Int("items", n))
		}
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
			if err := backoff.Wait(ctx, pause); err != nil {
				return deleted, err
			}
		}
	}
	return deleted, nil
}

// sweepSome sweeps one part of the table. It returns the key at which the next part begins, nil at the end.
func (s *Store) sweepSome(ctx context.Context, kind byte, from []byte) (int, []byte, error) {
	if err := s.enterWrite(ctx, opSweep); err != nil {
		return 0, nil, err
	}
	defer s.leave()
	found, next, err := s.candidates(kind, from)
	if err != nil || len(found) == 0 {
		return 0, next, s.failure(opSweep, err)
	}
	deleted := 0
	for group := range slices.Chunk(found, sweepGroup) {
		n, err := s.sweepThese(ctx, kind, group)
		if err != nil {
			return deleted, nil, s.failure(opSweep, err)
		}
		deleted += n
	}
	return deleted, next, nil
}

// sweepThese reads the candidates again, under their locks, and deletes each candidate that is
// still expired or wrong.
func (s *Store) sweepThese(ctx context.Context, kind byte, found []candidate) (int, error) {
	var set lockSet
	for _, c := range found {
		hash, _ := s.hash.of(c.key)
		set.add(hash, true)
	}
	st := stage{store: s, batch: s.db.NewBatch()}
	s.locks.lock(&set)
	now := s.now()
	deleted, err := 0, s.doubt()
	if err == nil {
		deleted, err = st.sweep(kind, found, now)
	}
	return deleted, st.finish(ctx, func() { s.locks.unlock(&set) }, err)
}

// sweep stages the deletions of the candidates.
func (st *stage) sweep(kind byte, found []candidate, now time.Time) (deleted int, err error) {
	for _, c := range found {
		it, _, err := st.store.read(c.key)
		switch {
		case st.store.db.Damaged(err) != nil: // a damaged item stays
		case err != nil:
			return 0, err
		case kind == kindIndex && !hinted(it, c.pk, c.sk):
			_ = st.batch.Delete(indexKey(c.pk, c.sk, c.key), nil) // cannot fail, as in put
		case kind == kindItem && it != nil && table.Expired(*it, now):
			st.write(c.key, st.store.hash.partition(c.key.PK), it, nil)
			deleted++
		}
	}
	return deleted, nil
}

// candidate is an item that seems expired, or the item of a hint that seems wrong.
type candidate struct {
	key    table.Key
	pk, sk string
}

// candidates reads one part of the table. It skips damaged data, which the sweep cannot repair.
func (s *Store) candidates(kind byte, from []byte) (found []candidate, next []byte, err error) {
	upper := []byte{kind + 1}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: upper})
	if err == nil {
		found, from, next = s.candidatesOf(kind, it, slices.Clone(from))
		err = errors.Join(it.Error(), it.Close())
	}
	if s.db.Damaged(err) != nil {
		return found, s.db.Past(from, upper), nil //nolint:nilerr // the store remembers the damage
	}
	return found, next, err
}

// candidatesOf returns the candidates of one part, the last key that it read, and the key at
// which the next part begins, nil at the end.
func (s *Store) candidatesOf(kind byte, it *pebble.Iterator, last []byte) (found []candidate, _, next []byte) {
	now := s.now().Unix()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > sweepPart {
			return found, last, slices.Clone(it.Key())
		}
		last = append(last[:0], it.Key()...)
		// An unreadable record stays.
		if c, seems, err := s.candidate(kind, it, now); err == nil && seems {
			found = append(found, c)
		} else if err != nil {
			_ = s.db.Damaged(err)
		}
	}
	return found, last, nil
}

func (s *Store) candidate(kind byte, it *pebble.Iterator, now int64) (c candidate, seems bool, err error) {
	if kind == kindIndex {
		if c.pk, c.sk, c.key, err = parseIndexKey(it.Key()); err != nil {
			return c, false, err
		}
		item, _, err := s.read(c.key)
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
