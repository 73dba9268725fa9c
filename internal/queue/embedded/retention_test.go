package embedded

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func deadIDs(t *testing.T, b *Broker) string {
	t.Helper()
	letters, err := b.ListDead(t.Context(), topicName, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(letters))
	for i, l := range letters {
		ids[i] = l.ID
	}
	return fmt.Sprint(ids)
}

func bury(t *testing.T, b *Broker, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := b.DeadLetter(t.Context(), topicName, text(id), "why"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeadLettersAreKeptFor14Days(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var skipped atomic.Int64
		b, err := Open("queue", Options{FS: vfs.NewMem(), Now: func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) }})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		// The store has many timers, so the clock skips all but the time of one sweep.
		later := func(d time.Duration) {
			synctest.Wait()
			skipped.Add(int64(d - deadSweepEvery))
			<-time.After(deadSweepEvery) // virtual
			synctest.Wait()
		}
		bury(t, b, "a", "b")
		later(24 * time.Hour)
		bury(t, b, "c", "d")
		if _, _, err := b.Redrive(t.Context(), topicName, []string{"b"}, nil); err != nil {
			t.Fatal(err)
		}
		bury(t, b, "b") // it failed again, which is what counts
		later(13*24*time.Hour - deadSweepEvery)
		if got := deadIDs(t, b); got != "[a c d b]" {
			t.Errorf("before the 14th day: %s", got)
		}
		later(deadSweepEvery)
		later(deadSweepEvery)
		if got := deadIDs(t, b); got != "[c d b]" {
			t.Errorf("on the 14th day: %s", got)
		}
		later(24 * time.Hour)
		if depth, err := b.Depth(t.Context(), topicName); deadIDs(t, b) != "[]" || depth.Dead != 0 || depth.Ready != 1 || err != nil {
			t.Errorf("on the 15th day: %s, depth %+v, %v", deadIDs(t, b), depth, err)
		}
	})
}

func TestASweepOfDeadLettersIsBounded(t *testing.T) {
	var now atomic.Int64
	now.Store(int64(time.Hour))
	b, err := Open("queue", Options{FS: vfs.NewMem(), Now: func() time.Time { return time.Unix(0, now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	topic, err := b.topic(topicName)
	if err != nil {
		t.Fatal(err)
	}
	changes := make([]change, deadBatches*deadAtOnce+10)
	for i := range changes {
		letter := newRecord(text(fmt.Sprint(i)), 0)
		if i == 3 {
			letter = record("?") // it cannot be read, but its time is in its key
		}
		changes[i] = change{topic: topic, to: dead, value: letter}
	}
	if err := b.submitAndWait(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	now.Add(int64(deadRetention + 1))
	for _, want := range []int{deadBatches * deadAtOnce, 10, 0} {
		if n, err := b.dropOld(t.Context(), topic); n != want || err != nil {
			t.Errorf("a sweep removed %d letters (%v), want %d", n, err, want)
		}
	}
}
