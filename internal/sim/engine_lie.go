package sim

import (
	"context"
	"errors"
	"sync/atomic"
	"testing/synctest"
	"time"

	"fanfare/internal/disk"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// lie is a time in which the disk reports syncs that it did not make. Then a power cut may undo
// answered writes. It must undo the last writes first: the remaining table is the table after one
// of the writes, and the remaining queue agrees with its own counts. The world continues with a
// disk that kept all data.
type lie struct {
	first  []table.Item
	writes []map[table.Key]*table.Item // the items after each write
}

func newLie(model *tabletest.Memory) *lie {
	first, err := allItems(model)
	if err != nil {
		panic(err) // unreachable: a scan of the model in memory does not fail
	}
	return &lie{first: first}
}

// checkLie opens a copy of the data that a power cut would leave now.
func (e *engine) checkLie() {
	keep := []int{0, 0, 30, 90}[e.rng.IntN(4)]
	image := e.disk.after(keep)
	s, err := openStores(image, image)
	if err != nil {
		if keep == 0 {
			e.fail("I5", "it does not open after a sync that lied: %v", err)
		}
		return // files are torn, and the engine reports the fault
	}
	there, err := allItems(s.table)
	// The beginning of one file may be lost, although the next file survives.
	torn := keep > 0 && (errors.Is(err, disk.ErrDamaged) || e.disk.hasMade())
	if !torn && (err != nil || !e.lie.leaves(there)) {
		e.fail("I5", "after a sync that lied (%d %% of the rest survives) the table is not as after any write (%v)", keep, err)
	}
	for _, topic := range queue.Topics() {
		e.checkTopic(s.queue, topic)
	}
	if err := s.close(); err != nil {
		e.fail("stuck", "close: %v", err)
	}
}

// leaves reports whether these items are the table after one of the writes, or before all writes.
func (l *lie) leaves(there []table.Item) bool { return len(l.prefixes(there)) > 0 }

// prefixes returns each number of writes after which these items are the table.
func (l *lie) prefixes(there []table.Item) (numbers []int) {
	got, want, apart := map[table.Key]table.Item{}, map[table.Key]*table.Item{}, map[table.Key]bool{}
	for _, it := range there {
		got[it.Key] = it
		apart[it.Key] = true
	}
	meet := func(key table.Key) {
		have, ok := got[key]
		if it := want[key]; it == nil && !ok || it != nil && ok && equal(have, *it) {
			delete(apart, key)
		} else {
			apart[key] = true
		}
	}
	for _, it := range l.first {
		want[it.Key] = &it
		meet(it.Key)
	}
	for i := range len(l.writes) + 1 {
		if len(apart) == 0 {
			numbers = append(numbers, i)
		}
		if i == len(l.writes) {
			break
		}
		for key, it := range l.writes[i] {
			want[key] = it
			meet(key)
		}
	}
	return numbers
}

// checkTopic compares the stored counts of a topic with its messages, which are all delivered and
// acked.
func (e *engine) checkTopic(broker *queueembedded.Broker, topic string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before, err := broker.Depth(ctx, topic)
	channel, subErr := broker.Subscribe(ctx, topic)
	if err = errors.Join(err, subErr); err != nil {
		e.fail("I6", "%s after a sync that lied: %v", topic, err)
		return
	}
	var came atomic.Int64
	go func() { // runs until the subscription ends
		for msg := range channel {
			came.Add(1)
			msg.Ack()
		}
	}()
	synctest.Wait()
	if short := came.Load() < before.Ready; short { // after many acks the next sync waits a moment for more callers
		time.Sleep(lookAgain)
		synctest.Wait()
	}
	after, err := broker.Depth(ctx, topic)
	letters, deadErr := broker.ListDead(ctx, topic, 1<<20)
	if err = errors.Join(err, deadErr); err != nil || int64(len(letters)) != after.Dead {
		e.fail("I6", "%s has %d dead letters after a sync that lied, and counts %d: %v", topic, len(letters), after.Dead, err)
	}
	if want := before.Ready + before.Delayed + before.InFlight + before.Dead; came.Load()+after.Delayed+after.Dead != want {
		e.fail("I6", "%s counts %d messages after a sync that lied, and %d come, %d wait and %d are dead", topic, want, came.Load(), after.Delayed, after.Dead)
	}
}
