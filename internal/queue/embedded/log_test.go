package embedded

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/queue"
)

// logClock is the clock of a test.
type logClock struct{ nanos atomic.Int64 }

func newLogClock() *logClock {
	c := &logClock{}
	c.nanos.Store(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *logClock) now() time.Time       { return time.Unix(0, c.nanos.Load()) }
func (c *logClock) move(d time.Duration) { c.nanos.Add(int64(d)) }

// openLog opens a queue with a clock. The caller closes it.
func openLog(t *testing.T, fs vfs.FS, dir string, clock *logClock) *Broker {
	t.Helper()
	b, err := Create(dir, Options{FS: fs, Now: clock.now, EventsKept: time.Hour})
	require.NoError(t, err)
	return b
}

// event returns a message whose payload is its id.
func event(id string) *message.Message { return message.NewMessage(id, []byte(id)) }

func logAll(t *testing.T, b *Broker, texts ...string) {
	t.Helper()
	for _, one := range texts {
		require.NoError(t, b.Log("the log", event(one)))
	}
}

// page reads at most limit events.
func page(b *Broker, after string, limit int) (texts, positions []string, next string, err error) {
	next, err = b.ReadLog(after, func(position string, payload []byte) bool {
		if len(texts) == limit {
			return false
		}
		texts, positions = append(texts, string(payload)), append(positions, position)
		return true
	})
	return texts, positions, next, err
}

// refused returns the error of a read.
func refused(b *Broker, after string) error {
	_, err := b.ReadLog(after, func(string, []byte) bool { return true })
	return err
}

func readTexts(t *testing.T, b *Broker, after string) (texts []string, next string) {
	t.Helper()
	texts, positions, next, err := page(b, after, 1_000_000)
	require.NoError(t, err)
	assert.True(t, slices.IsSorted(positions) && (len(positions) == 0 || positions[0] > after), "%q behind %q", positions, after)
	return texts, next
}

func TestAReaderContinuesAtItsPosition(t *testing.T) {
	t.Parallel()
	b := openLog(t, vfs.NewMem(), "queue", newLogClock())
	texts, next := readTexts(t, b, "")
	assert.Empty(t, texts)
	again, same := readTexts(t, b, next)
	assert.Empty(t, again)
	assert.Equal(t, next, same, "a reader without events stays where it is")
	require.NoError(t, b.Log("the log"))
	require.NoError(t, b.Log("the log", event("one"), event("two"), event("three")))
	logAll(t, b, "four", "five")
	var got []string
	for {
		texts, positions, at, err := page(b, next, 2)
		require.NoError(t, err)
		if len(texts) == 0 {
			break
		}
		assert.Equal(t, positions[len(positions)-1], at)
		got, next = append(got, texts...), at
	}
	assert.Equal(t, []string{"one", "two", "three", "four", "five"}, got)
	require.ErrorIs(t, b.Log("the log", message.NewMessage("6", []byte("\x01"))), queue.ErrInvalid)
	require.NoError(t, b.Close())
	require.ErrorIs(t, refused(b, next), queue.ErrClosed)
	require.ErrorIs(t, b.Log("the log", event("7")), queue.ErrClosed)
}

// A reader that has read up to a position never misses an event below it, whatever the writers and the clock do meanwhile.
func TestReadersBesideManyWritersMissNothing(t *testing.T) {
	t.Parallel()
	const writers, each = 16, 40
	clock := newLogClock()
	b := openLog(t, vfs.NewMem(), "queue", clock)
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				clock.move(time.Duration(i%3-1) * time.Second)
				assert.NoError(t, b.Log("the log", event(fmt.Sprint(w, " ", i))))
			}
		})
	}
	written := make(chan struct{})
	go func() { writing.Wait(); close(written) }() // the loop below waits for it
	var got []string
	next, over := "", false
	for {
		texts, _, at, err := page(b, next, 7)
		require.NoError(t, err)
		got, next = append(got, texts...), at
		if len(texts) == 0 && over {
			break
		}
		select {
		case <-written:
			over = true
		default:
		}
	}
	all, last := readTexts(t, b, "")
	assert.Equal(t, all, got)
	assert.Equal(t, last, next)
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(got))), writers*each)
	require.NoError(t, b.Close())
}

// An event that a crash may still undo has no readers yet.
func TestAReaderGetsOnlyDurableEvents(t *testing.T) {
	t.Parallel()
	memory := vfs.NewCrashableMem()
	fs := disktest.New(memory)
	b := openLog(t, fs, "queue", newLogClock())
	logAll(t, b, "before")
	_, next := readTexts(t, b, "")
	grew := b.LogGrew()
	syncing, release := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(syncing) })
	fs.Set(func(op, name string, _ int) error {
		if op == "sync" && strings.HasSuffix(name, ".log") {
			once()
			<-release
		}
		return nil
	})
	sent := make(chan error, 1)
	go func() { sent <- b.Log("the log", event("during")) }() // the test waits for it
	<-syncing
	texts, _ := readTexts(t, b, next)
	assert.Empty(t, texts, "the event is not on the disk yet")
	select {
	case <-grew:
		assert.Fail(t, "readers were woken")
	default:
	}
	close(release)
	require.NoError(t, <-sent)
	<-grew
	texts, _ = readTexts(t, b, next)
	assert.Len(t, texts, 1)
	fs.Set(nil)
	require.NoError(t, b.Close())
}

func TestPositionsGrowOverRestartsAndStepsOfTheClock(t *testing.T) {
	t.Parallel()
	memory, clock := vfs.NewCrashableMem(), newLogClock()
	b := openLog(t, memory, "queue", clock)
	logAll(t, b, "1")
	_, next := readTexts(t, b, "")
	step := func(want string) {
		t.Helper()
		clock.move(-10 * time.Minute)
		logAll(t, b, want)
		texts, at := readTexts(t, b, next)
		assert.Equal(t, []string{want}, texts)
		next = at
	}
	step("2")
	crashed := memory.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, b.Close())
	b = openLog(t, crashed, "queue", clock)
	step("3")
	clock.move(2 * time.Hour)
	_, err := b.removeOldEvents(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.Close())
	clock.move(-2 * time.Hour)
	b = openLog(t, crashed, "queue", clock)
	step("4") // all events were removed before
	require.NoError(t, b.Close())
}

func TestOldEventsAreRemovedAndALateReaderIsTold(t *testing.T) {
	t.Parallel()
	memory, clock := vfs.NewCrashableMem(), newLogClock()
	b := openLog(t, memory, "queue", clock)
	at, err := b.OldestEvent()
	require.NoError(t, err)
	assert.True(t, at.IsZero())
	began := clock.now()
	logAll(t, b, "1", "2")
	_, positions, _, err := page(b, "", 2)
	require.NoError(t, err)
	clock.move(40 * time.Minute)
	logAll(t, b, "3")
	sweep := func(want int) {
		t.Helper()
		removed, err := b.removeOldEvents(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, removed)
	}
	clock.move(20 * time.Minute)
	sweep(0) // an hour has passed, and not more
	clock.move(1)
	sweep(2)
	oldest, err := b.OldestEvent()
	require.NoError(t, err)
	assert.True(t, oldest.Equal(began.Add(40*time.Minute)), oldest)
	check := func() {
		t.Helper()
		gone, ok := errors.AsType[*queue.GoneError](refused(b, positions[0]))
		require.True(t, ok)
		assert.Equal(t, positions[1], gone.Resume)
		assert.True(t, gone.Before.Equal(began), gone.Before)
	}
	check()
	for _, after := range []string{positions[1], ""} { // this reader has read all removed events, or has read none
		texts, _ := readTexts(t, b, after)
		assert.Equal(t, []string{"3"}, texts)
	}
	clock.move(time.Hour)
	sweep(1)
	late := func() {
		t.Helper()
		require.ErrorAs(t, refused(b, positions[1]), new(*queue.GoneError), "no event is left, and one was missed")
		texts, next := readTexts(t, b, "")
		assert.Empty(t, texts)
		texts, _ = readTexts(t, b, next)
		assert.Empty(t, texts)
	}
	late()
	require.NoError(t, b.Close())
	b = openLog(t, memory, "queue", clock)
	late()
	require.NoError(t, b.Close())
}

// A removal whose outcome is unknown is repeated, although readers take its events for removed.
func TestAFailedRemovalIsRepeated(t *testing.T) {
	t.Parallel()
	clock := newLogClock()
	b := openLog(t, vfs.NewMem(), "queue", clock)
	logAll(t, b, "1")
	last, _ := b.events.ends()
	b.events.remove(last)
	clock.move(2 * time.Hour)
	removed, err := b.removeOldEvents(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, removed)
	require.NoError(t, b.Close())
}

func TestASweepRemovesOldEventsInBatches(t *testing.T) {
	t.Parallel()
	clock := newLogClock()
	b := openLog(t, vfs.NewMem(), "queue", clock)
	msgs := make([]*message.Message, 2*removedAtOnce+1)
	for i := range msgs {
		msgs[i] = event(fmt.Sprint(i))
	}
	require.NoError(t, b.Log("the log", msgs...))
	clock.move(2 * time.Hour)
	var from position
	for _, want := range []int{removedAtOnce, removedAtOnce, 1} {
		n, more, err := b.removeSomeEvents(t.Context(), &from)
		require.NoError(t, err)
		assert.Equal(t, want, n)
		assert.Equal(t, want == removedAtOnce, more)
	}
	require.NoError(t, b.Close())
}

func TestAClockInDoubtRemovesNoEvents(t *testing.T) {
	t.Parallel()
	clock := newLogClock()
	b, err := Create("queue", Options{FS: vfs.NewMem(), Now: clock.now, Doubt: func() error { return errors.New("in doubt") }})
	require.NoError(t, err)
	logAll(t, b, "1")
	clock.move(time.Hour)
	removed, err := b.removeOldEvents(t.Context())
	require.NoError(t, err)
	assert.Zero(t, removed)
	require.NoError(t, b.Close())
}

// The sweeper runs each hour. A process without a retention, such as a command, removes no events that another process keeps, and
// in the end removes them, too.
func TestTheSweeperRemovesEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		for i, c := range []struct {
			kept, passes time.Duration
			want         int
		}{
			{48 * time.Hour, 30 * time.Hour, 1}, {0, 20 * time.Hour, 1}, {MostEventsKept, time.Hour, 1}, {48 * time.Hour, time.Minute, 0},
			{48 * time.Hour, time.Hour, 1}, {0, MostEventsKept + time.Hour, 0},
		} {
			b, err := Create("queue", Options{FS: fs, EventsKept: c.kept})
			require.NoError(t, err)
			if i == 0 || i == 4 {
				logAll(t, b, "1")
			}
			<-time.After(c.passes) // virtual
			synctest.Wait()
			texts, _, _, err := page(b, "", 10)
			if c.want > 0 {
				require.NoError(t, err)
			}
			assert.Lenf(t, texts, c.want, "turn %d", i)
			require.NoError(t, b.Close())
		}
	})
}

// A copy of the directory, as in a backup or on a standby, continues with later positions than the original had at the copy, and than
// the readers of the original had in the meantime.
func TestACopyOfTheLogContinues(t *testing.T) {
	t.Parallel()
	fs, clock := vfs.NewMem(), newLogClock()
	require.NoError(t, fs.MkdirAll("copies", 0o700))
	b := openLog(t, fs, "queue", clock)
	logAll(t, b, "1")
	require.NoError(t, b.Checkpoint(t.Context(), "copies/queue", func() error { return nil }))
	clock.move(time.Second)
	logAll(t, b, "lost")
	_, next := readTexts(t, b, "")
	require.NoError(t, b.Close())
	clock.move(time.Second)
	b = openLog(t, fs, "copies/queue", clock)
	texts, at := readTexts(t, b, next)
	assert.Empty(t, texts, "a reader may be ahead of a copy")
	assert.Equal(t, next, at)
	logAll(t, b, "2")
	texts, _ = readTexts(t, b, next)
	assert.Equal(t, []string{"2"}, texts)
	// If the clock is behind the readers, new events could be behind them, too.
	require.NoError(t, b.Close())
	clock.move(-time.Hour)
	b = openLog(t, vfs.NewMem(), "queue", clock)
	require.ErrorAs(t, refused(b, next), new(*queue.PositionError))
	require.NoError(t, b.Close())
}

func TestAnUnreadableEventIsLeftOut(t *testing.T) {
	t.Parallel()
	b := openLog(t, vfs.NewMem(), "queue", newLogClock())
	logAll(t, b, "1")
	require.NoError(t, b.submitAndWait(t.Context(), []change{{to: logged, value: record("?")}}))
	logAll(t, b, "2")
	texts, _ := readTexts(t, b, "")
	assert.Equal(t, []string{"1", "2"}, texts)
	require.NoError(t, b.Close())
}

func FuzzPositions(f *testing.F) {
	f.Add(position{1, 2}.String())
	f.Add("")
	f.Add(strings.Repeat("F", 32))
	f.Add(strings.Repeat("0", 31))
	b, err := Create("queue", Options{FS: vfs.NewMem()})
	require.NoError(f, err)
	f.Cleanup(func() { assert.NoError(f, b.Close()) })
	f.Fuzz(func(t *testing.T, given string) {
		p, ok := parsePosition(given)
		if ok {
			assert.Equal(t, given, p.String())
		}
		next, err := b.ReadLog(given, func(string, []byte) bool { return true })
		switch {
		case err != nil:
			require.ErrorAs(t, err, new(*queue.PositionError))
		case given != "":
			assert.True(t, ok)
			assert.Equal(t, given, next)
		}
	})
}
