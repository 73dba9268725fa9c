package access

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

func TestTheMemoryOfRecentReadsIsBounded(t *testing.T) {
	r := newRecentReads(&Access{Config: Config{Now: time.Now, LikeWindow: time.Minute}})
	r.read = func(context.Context, []table.Key) (map[table.Key]table.Item, error) { return nil, nil }
	for i := range 2 * maxRecent / 100 {
		keys := make([]table.Key, 100)
		for j := range keys {
			keys[j] = table.Key{PK: fmt.Sprint(i, j), SK: "info"}
		}
		_, err := r.Get(t.Context(), keys)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, r.kept.Len(), maxRecent)
}

// shared is a Recent with a count of its reads. Its table has a name, a like count, and a note of
// blocks.
type shared struct {
	*Recent
	at    time.Time
	reads int
	table map[table.Key]table.Item
}

func newShared(window, names time.Duration) *shared {
	s := &shared{at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), table: map[table.Key]table.Item{}}
	s.Recent = newRecentReads(&Access{Config: Config{Now: func() time.Time { return s.at }, LikeWindow: window, KeptNames: names}.withDefaults()})
	for _, key := range []table.Key{schema.ProfileKey("ann"), schema.LikeCountKey("p"), schema.HasBlocksKey("ann")} {
		s.table[key] = table.Item{Key: key}
	}
	s.Recent.read = func(_ context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
		s.reads++
		found := map[table.Key]table.Item{}
		for _, key := range keys {
			if it, ok := s.table[key]; ok {
				found[key] = it
			}
		}
		return found, nil
	}
	return s
}

// readsOf returns the number of table reads for one Get of key.
func (s *shared) readsOf(t *testing.T, key table.Key) int {
	t.Helper()
	before := s.reads
	found, err := s.Get(t.Context(), []table.Key{key})
	require.NoError(t, err)
	want, ok := s.table[key]
	got, there := found[key]
	assert.Equal(t, ok, there, key)
	assert.Equal(t, want, got, key)
	return s.reads - before
}

func TestSharedItemsLiveAsLongAsTheirKind(t *testing.T) {
	for _, c := range []struct {
		key                table.Key
		window, names, age time.Duration
	}{
		{schema.ProfileKey("ann"), time.Second, 0, time.Minute},
		{schema.ProfileKey("ann"), time.Second, 3 * time.Second, 3 * time.Second},
		{schema.LikeCountKey("p"), time.Second, 0, time.Second / 2},
		{schema.LikeCountKey("p"), 10 * time.Second, 0, 5 * time.Second},
		{schema.HasBlocksKey("ann"), time.Second, 0, time.Second},
		{schema.HasBlocksKey("ann"), 10 * time.Second, 0, 2 * time.Second},
		{schema.ProfileKey("ann"), 0, 0, 0},
		{schema.LikeCountKey("p"), 0, 0, 0},
		{schema.HasBlocksKey("ann"), 0, 0, 0},
	} {
		s := newShared(c.window, c.names)
		assert.Equal(t, 1, s.readsOf(t, c.key))
		if c.age > 0 {
			s.at = s.at.Add(c.age - 1)
			assert.Zerof(t, s.readsOf(t, c.key), "%s, window %s", c.key.SK, c.window)
			s.at = s.at.Add(1)
		}
		assert.Equalf(t, 1, s.readsOf(t, c.key), "%s, window %s", c.key.SK, c.window)
	}
}

// A request may name a user who is about to make a profile, so the absence of a profile is not shared.
// The absence of a like count is shared, because a new like count may be shown late.
func TestTheAbsenceOfACountIsSharedAndThatOfAProfileIsNot(t *testing.T) {
	s := newShared(time.Second, 0)
	clear(s.table)
	assert.Equal(t, 1, s.readsOf(t, schema.LikeCountKey("p")))
	assert.Zero(t, s.readsOf(t, schema.LikeCountKey("p")))
	for range 2 {
		assert.Equal(t, 1, s.readsOf(t, schema.ProfileKey("ann")))
	}
}

// The profile is written while an earlier read is still failing.
func TestAReadThatFailsTakesNoWrittenItemAway(t *testing.T) {
	down := errors.New("table down")
	for _, meanwhile := range []bool{false, true} {
		s := newShared(time.Second, 0)
		key := schema.ProfileKey("ann")
		works := s.read
		s.read = func(context.Context, []table.Key) (map[table.Key]table.Item, error) {
			if meanwhile {
				s.Keep(s.table[key], s.at)
			}
			return nil, down
		}
		_, err := s.Get(t.Context(), []table.Key{key})
		require.ErrorIs(t, err, down)
		s.read = works
		want := 1
		if meanwhile {
			want = 0
		}
		assert.Equal(t, want, s.readsOf(t, key))
	}
}

// A written item counts from before its write: another process may have written before the answer.
func TestAWrittenItemIsAsOldAsItsWrite(t *testing.T) {
	s := newShared(time.Second, time.Minute)
	key := schema.ProfileKey("ann")
	began := s.at
	s.at = s.at.Add(time.Hour)
	s.Keep(s.table[key], began)
	assert.Equal(t, 1, s.readsOf(t, key))
}

func TestARequestThatEndsWaitsForNoSharedRead(t *testing.T) {
	s := newShared(time.Second, 0)
	key := schema.ProfileKey("ann")
	works := s.read
	s.read = func(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
		ended, cancel := context.WithCancelCause(ctx)
		gone := errors.New("the client has gone")
		cancel(gone)
		_, err := s.Get(ended, []table.Key{key})
		require.ErrorIs(t, err, gone)
		return works(ctx, keys)
	}
	assert.Equal(t, 1, s.readsOf(t, key))
}
