package embedded

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func deadIDs(t *testing.T, b *Broker) string {
	t.Helper()
	letters, err := b.ListDead(t.Context(), topicName, 1000)
	require.NoError(t, err)
	ids := make([]string, len(letters))
	for i, l := range letters {
		ids[i] = l.ID
	}
	return fmt.Sprint(ids)
}

func bury(t *testing.T, b *Broker, ids ...string) {
	t.Helper()
	for _, id := range ids {
		require.NoError(t, b.DeadLetter(t.Context(), topicName, text(id), "why"))
	}
}

func TestDeadLettersAreKeptFor14Days(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var skipped atomic.Int64
		b, err := Create("queue", Options{FS: vfs.NewMem(), Now: func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) }})
		require.NoError(t, err)
		defer func() {
			assert.NoError(t, b.Close())
		}()
		// The store has many timers, so the clock skips all of the time except one sweep.
		later := func(d time.Duration) {
			synctest.Wait()
			skipped.Add(int64(d - sweepEvery))
			<-time.After(sweepEvery) // virtual
			synctest.Wait()
		}
		bury(t, b, "a", "b")
		later(24 * time.Hour)
		bury(t, b, "c", "d")
		_, _, err = b.Redrive(t.Context(), topicName, []string{"b"}, nil)
		require.NoError(t, err)
		bury(t, b, "b") // only the latest failure counts
		later(13*24*time.Hour - sweepEvery)
		assert.Equal(t, "[a c d b]", deadIDs(t, b), "before the 14th day")
		later(sweepEvery)
		later(sweepEvery)
		assert.Equal(t, "[c d b]", deadIDs(t, b), "on the 14th day")
		later(24 * time.Hour)
		if depth, err := b.Depth(t.Context(), topicName); deadIDs(t, b) != "[]" || depth.Dead != 0 || depth.Ready != 1 || err != nil {
			t.Errorf("on the 15th day: %s, depth %+v, %v", deadIDs(t, b), depth, err)
		}
	})
}

func TestASweepOfDeadLettersIsBounded(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(int64(time.Hour))
	b, err := Create("queue", Options{FS: vfs.NewMem(), Now: func() time.Time { return time.Unix(0, now.Load()) }})
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, b.Close())
	}()
	topic, err := b.topic(topicName)
	require.NoError(t, err)
	changes := make([]change, deadBatches*deadAtOnce+10)
	for i := range changes {
		letter := newRecord(text(fmt.Sprint(i)), 0)
		if i == 3 {
			letter = record("?") // the record cannot be read, but its key has the time
		}
		changes[i] = change{topic: topic, to: dead, value: letter}
	}
	require.NoError(t, b.submitAndWait(t.Context(), changes))
	now.Add(int64(deadRetention + 1))
	for _, want := range []int{deadBatches * deadAtOnce, 10, 0} {
		if n, err := b.dropOld(t.Context(), topic); n != want || err != nil {
			t.Errorf("a sweep removed %d letters (%v), want %d", n, err, want)
		}
	}
}

func TestAClockInDoubtRemovesNoDeadLetters(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	var wrong atomic.Bool
	b, err := Create("queue", Options{FS: vfs.NewMem(), Now: func() time.Time { return time.Unix(0, now.Load()) }, Doubt: func() error {
		if wrong.Load() {
			return errors.New("in doubt")
		}
		return nil
	}})
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, b.Close())
	}()
	bury(t, b, "a")
	topic, err := b.topic(topicName)
	require.NoError(t, err)
	now.Add(int64(deadRetention + time.Hour))
	for _, want := range []int{0, 1} {
		wrong.Store(want == 0)
		n, err := b.dropOld(t.Context(), topic)
		require.NoError(t, err)
		assert.Equal(t, want, n)
	}
}
