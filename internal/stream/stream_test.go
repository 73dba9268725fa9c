package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/stream"
)

var _ disk.Tap = stream.Tap{}

// writer writes logs of one store to a stream.
type writer struct {
	tap         stream.Tap
	log, length uint64
	mu          sync.Mutex
	syncs       int
}

func newWriter(s *stream.Stream, store stream.Store) *writer { return &writer{tap: s.Tap(store)} }

func (w *writer) begin(log uint64) {
	w.log, w.length = log, 0
	w.tap.Created(log, func() (uint64, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.syncs++
		return w.length, nil
	})
}

func (w *writer) write(data []byte) {
	w.tap.Wrote(w.log, w.length, data)
	w.mu.Lock()
	w.length += uint64(len(data))
	w.mu.Unlock()
}

func (w *writer) sync() { w.tap.Synced(w.log, w.length) }

func config(fs vfs.FS) stream.Config {
	clock := time.UnixMilli(1_795_000_000_000)
	return stream.Config{FS: fs, Dir: "stream", Spool: 1 << 30, Log: zap.NewNop(), Now: func() time.Time {
		clock = clock.Add(time.Millisecond)
		return clock
	}}
}

func open(t *testing.T, c stream.Config, from stream.Position) *stream.Stream {
	t.Helper()
	s, err := stream.Open(c, from)
	require.NoError(t, err)
	return s
}

// take returns the next frames up to the safe point.
func take(t *testing.T, s *stream.Stream, r *stream.Receiver, at *stream.Position) (frames []stream.Frame, last stream.Mark) {
	t.Helper()
	for safe := s.Safe(); !at.Covers(safe); {
		some, mark, err := r.Next(t.Context(), 1<<20)
		require.NoError(t, err)
		require.NotEmpty(t, some)
		for _, f := range some {
			*at = at.After(f)
		}
		frames, last = append(frames, some...), mark
	}
	return frames, last
}

// noise does not compress.
func noise(n int) []byte {
	data := make([]byte, n)
	if _, err := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(data); err != nil {
		panic(err)
	}
	return data
}

// S3: the safe point is before the first frame, of either store, whose bytes are not synced.
func TestTheSafePointIsBeforeUnsyncedBytesOfEitherStore(t *testing.T) {
	t.Parallel()
	s := open(t, config(vfs.NewMem()), stream.Position{})
	r := s.Receive(stream.Position{})
	queue, table := newWriter(s, stream.Queue), newWriter(s, stream.Table)
	queue.begin(3)
	table.begin(4)
	at := stream.Position{}
	frames, _ := take(t, s, r, &at)
	assert.Len(t, frames, 2, "both beginnings")
	queue.write([]byte("unsynced"))
	table.write([]byte("synced"))
	table.sync()
	frames, _ = take(t, s, r, &at)
	assert.Empty(t, frames)
	assert.Equal(t, stream.Place{Log: 4}, s.Safe().Table, "the bytes of the queue are before")
	require.NoError(t, s.Settle())
	assert.Equal(t, 1, queue.syncs)
	assert.Equal(t, 0, table.syncs, "its bytes are synced")
	frames, _ = take(t, s, r, &at)
	require.Len(t, frames, 2)
	assert.Equal(t, "unsynced", string(frames[0].Data))
	assert.Equal(t, "synced", string(frames[1].Data))
	assert.Equal(t, s.End(), s.Safe())
	queue.begin(9)
	frames, _ = take(t, s, r, &at)
	require.Len(t, frames, 2)
	assert.Equal(t, stream.Frame{Kind: stream.Ends, Store: stream.Queue, Time: frames[0].Time, Log: 3, Offset: 8}, frames[0])
	assert.Equal(t, stream.Frame{Kind: stream.Begins, Store: stream.Queue, Time: frames[0].Time, Log: 9}, frames[1])
}

func TestTheTimeOfFramesDoesNotGoBack(t *testing.T) {
	t.Parallel()
	c := config(vfs.NewMem())
	clock := time.UnixMilli(1000)
	c.Now = func() time.Time {
		clock = clock.Add(-time.Millisecond)
		return clock
	}
	s := open(t, c, stream.Position{})
	r := s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	w.begin(1)
	for range 5 {
		w.write([]byte("x"))
	}
	w.sync()
	at := stream.Position{}
	frames, _ := take(t, s, r, &at)
	for _, f := range frames {
		assert.Equal(t, int64(999), f.Time)
	}
}

// A stop in order keeps the times of the frames that a receiver lacks: a restore to a time before the stop needs these times.
func TestAStopKeepsTheTimesOfFrames(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	c := config(mem)
	now := time.UnixMilli(5000)
	c.Now = func() time.Time { return now }
	s := open(t, c, stream.Position{})
	s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	w.begin(1)
	w.write(noise(100))
	w.sync()
	end := s.End()
	require.NoError(t, s.Close())
	now = now.Add(time.Hour)
	s = open(t, c, stream.Position{})
	require.Equal(t, end, s.End())
	at := stream.Position{}
	frames, _ := take(t, s, s.Receive(at), &at)
	require.Len(t, frames, 2)
	assert.EqualValues(t, 5000, frames[1].Time)
	require.NoError(t, s.Close())
}

func TestALargeWriteIsSeveralFrames(t *testing.T) {
	t.Parallel()
	s := open(t, config(vfs.NewMem()), stream.Position{})
	r := s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	w.begin(1)
	data := noise(2*stream.MaxData + 1)
	w.write(data)
	clear(data[1:]) // the data belong to the caller
	w.sync()
	at, got := stream.Position{}, []byte{}
	frames, _ := take(t, s, r, &at)
	for _, f := range frames {
		assert.LessOrEqual(t, len(f.Data), stream.MaxData)
		got = append(got, f.Data...)
	}
	assert.Equal(t, noise(2*stream.MaxData+1), got)
}

func files(t *testing.T, fs vfs.FS) (names []string) {
	t.Helper()
	names, err := fs.List("stream")
	require.NoError(t, err)
	return names
}

// run runs the stream until the test ends.
func run(t *testing.T, s *stream.Stream) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// S5: receivers that are behind get all from the spool, each at its own pace, and the spool goes when nobody
// needs it.
func TestASlowReceiverGetsAllFromTheSpool(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := open(t, config(mem), stream.Position{})
	run(t, s)
	slow, fast := s.Receive(stream.Position{}), s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	w.begin(1)
	var want []byte
	at := stream.Position{}
	for i := range 140 { // 35 MB, so that the spool has two files
		w.write(noise(250_000 + i))
		want = append(want, noise(250_000+i)...)
		w.sync()
		_, mark := take(t, s, fast, &at)
		fast.Done(mark)
		if i%20 == 19 {
			disktest.Until(t, func() bool { return s.Memory() <= 8<<20 })
		}
	}
	assert.GreaterOrEqual(t, len(files(t, mem)), 2)
	var got []byte
	at = stream.Position{}
	frames, mark := take(t, s, slow, &at)
	for _, f := range frames {
		assert.Equal(t, f.Kind == stream.Bytes, f.Offset == uint64(len(got)) && len(f.Data) > 0)
		got = append(got, f.Data...)
	}
	assert.True(t, bytes.Equal(want, got))
	slow.Done(mark)
	disktest.Until(t, func() bool { return len(files(t, mem)) == 0 })
	assert.Zero(t, s.Memory())
}

// Without a receiver nothing is kept, and a log may go at once.
func TestWithoutAReceiverNothingIsKept(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := open(t, config(mem), stream.Position{})
	r := s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	w.begin(1)
	w.write(noise(1000))
	w.sync()
	assert.Positive(t, s.Memory())
	r.Close()
	assert.Zero(t, s.Memory())
	w.write(noise(1000))
	w.sync()
	w.begin(2)
	w.tap.MayGo(1)
	assert.Zero(t, s.Memory())
	assert.Empty(t, files(t, mem))
}

// S4: a log may go once the spool has it, and that survives a power cut. Unsynced bytes of the other store do
// not hold it up.
func TestALogThatMayGoIsInTheSpoolAfterAPowerCut(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	s := open(t, config(mem), stream.Position{})
	s.Receive(stream.Position{})
	queue, table := newWriter(s, stream.Queue), newWriter(s, stream.Table)
	queue.begin(1)
	table.begin(2)
	queue.write([]byte("of the queue"))
	table.write([]byte("of the table"))
	table.sync()
	table.begin(3)
	table.tap.MayGo(2)
	end := s.End()
	table.write([]byte("not handed on"))

	after := mem.CrashClone(vfs.CrashCloneCfg{})
	s = open(t, config(after), stream.Position{})
	assert.Equal(t, stream.Place{Log: 3}, s.End().Table, "the log that may go, and the beginning of the next one")
	assert.True(t, end.Covers(s.End()))
	at := stream.Position{}
	frames, _ := take(t, s, s.Receive(stream.Position{}), &at)
	var got []string
	for _, f := range frames {
		got = append(got, fmt.Sprint(f.Kind, f.Store, f.Log, string(f.Data)))
	}
	assert.Equal(t, []string{"1 1 1", "1 2 2", "2 1 1of the queue", "2 2 2of the table", "3 2 2", "1 2 3"}, got)

	// A receiver that has a part gets the rest, one that has all leaves nothing.
	part := stream.Position{Queue: stream.Place{Log: 1, Offset: 12}, Table: stream.Place{Log: 2}}
	s = open(t, config(after), part)
	at = part
	frames, _ = take(t, s, s.Receive(part), &at)
	require.NotEmpty(t, frames)
	assert.Equal(t, "of the table", string(frames[0].Data))
	require.NoError(t, s.Close())
	s = open(t, config(after), end)
	assert.Equal(t, end, s.End())
	assert.Empty(t, files(t, after))
}

// lost expects that a receiver has a gap and continues after the gap, and that the writer was not delayed.
func lost(t *testing.T, s *stream.Stream, r *stream.Receiver, w *writer, mem vfs.FS) {
	t.Helper()
	_, _, err := r.Next(t.Context(), 1)
	require.ErrorIs(t, err, stream.ErrGap)
	w.tap.MayGo(w.log - 1)
	at := r.Restart()
	w.write([]byte("after the gap"))
	w.sync()
	frames, _ := take(t, s, r, &at)
	require.Len(t, frames, 1)
	assert.Equal(t, "after the gap", string(frames[0].Data))
	disktest.Until(t, func() bool { return len(files(t, mem)) == 0 })
}

func TestASpoolThatIsFullIsDropped(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*stream.Config){
		"its own size": func(c *stream.Config) { c.Spool = 20 << 20 },
		"the last tenth": func(c *stream.Config) {
			c.FS = small{c.FS, vfs.DiskUsage{AvailBytes: 100 << 20, TotalBytes: 2000 << 20}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			c := config(mem)
			limit(&c)
			s := open(t, c, stream.Position{})
			run(t, s)
			r := s.Receive(stream.Position{})
			w := newWriter(s, stream.Table)
			w.begin(1)
			for i := range 120 { // 30 MB
				w.write(noise(250_000 + i))
				w.sync()
				if i%20 == 19 {
					disktest.Until(t, func() bool { return s.Memory() <= 8<<20 })
				}
			}
			w.begin(2)
			assert.True(t, w.tap.MayGo(1))
			lost(t, s, r, w, mem)
		})
	}
}

func TestALargeDiskNeedsNoTenthForTheSpool(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	c := config(mem)
	c.FS = small{c.FS, vfs.DiskUsage{AvailBytes: 150 << 30, TotalBytes: 2 << 40}}
	s := open(t, c, stream.Position{})
	run(t, s)
	r := s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	w.begin(1)
	for i := range 120 { // 30 MB
		w.write(noise(250_000 + i))
		w.sync()
		if i%20 == 19 {
			disktest.Until(t, func() bool { return s.Memory() <= 8<<20 })
		}
	}
	at := stream.Position{}
	frames, _ := take(t, s, r, &at)
	assert.Equal(t, 121, len(frames), "the beginning of the log, and its writes") //nolint:testifylint // Len prints 30 MB
}

// The frames of a receiver that keeps them stay in memory, and their logs on the disk, until there is room or the receiver has them.
func TestAKeptFrameIsNotDropped(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	disk := disktest.New(mem)
	s := open(t, config(disk), stream.Position{})
	run(t, s)
	r := s.Receive(stream.Position{})
	r.Keep(true)
	w := newWriter(s, stream.Table)
	w.begin(1)
	disk.Fill(0)
	for i := range 80 { // 20 MB
		w.write(noise(250_000 + i))
		w.sync()
	}
	w.begin(2)
	assert.False(t, w.tap.MayGo(1))
	disk.Set(nil)
	assert.True(t, w.tap.MayGo(1))
	at := stream.Position{}
	frames, last := take(t, s, r, &at)
	assert.Len(t, frames, 83)
	r.Done(last)
	disk.Fill(0)
	w.write(noise(100))
	w.sync()
	w.begin(3)
	assert.False(t, w.tap.MayGo(2))
	frames, last = take(t, s, r, &at)
	assert.Len(t, frames, 3)
	r.Done(last)
	assert.True(t, w.tap.MayGo(2))
	r.Keep(false)
	w.write(noise(100))
	w.sync()
	w.begin(4)
	assert.True(t, w.tap.MayGo(3), "dropped")
	_, _, err := r.Next(t.Context(), 1)
	require.ErrorIs(t, err, stream.ErrGap)
}

// A receiver that is away loses its place to a full spool. A receiver that is quick keeps its place.
func TestAFullSpoolCostsOnlyTheSlowestReceiver(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	c := config(mem)
	c.Spool = 20 << 20
	s := open(t, c, stream.Position{})
	run(t, s)
	away, quick := s.Receive(stream.Position{}), s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	w.begin(1)
	at := stream.Position{}
	for i := range 160 { // 40 MB
		w.write(noise(250_000 + i))
		w.sync()
		if i%8 == 7 {
			_, mark := take(t, s, quick, &at)
			quick.Done(mark)
			bytes, since := quick.Behind(s.End())
			require.Zero(t, bytes)
			require.Zero(t, since)
			disktest.Until(t, func() bool { return s.Memory() <= 8<<20 })
		}
	}
	n, open := quick.Gaps()
	assert.Zero(t, n)
	assert.False(t, open)
	n, open = away.Gaps()
	assert.EqualValues(t, 1, n)
	assert.True(t, open)
	disktest.Until(t, func() bool { return len(files(t, mem)) == 0 })
}

// A receiver that keeps its frames costs a quicker receiver nothing, because the frames stay. A receiver that keeps nothing loses its
// place when it is the slowest.
func TestAFullSpoolCostsOnlyAReceiverThatKeepsNothing(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	disk := disktest.New(mem)
	s := open(t, config(disk), stream.Position{})
	run(t, s)
	kept, archive := s.Receive(stream.Position{}), s.Receive(stream.Position{})
	kept.Keep(true)
	w := newWriter(s, stream.Table)
	w.begin(1)
	w.write(noise(100))
	w.sync()
	disk.Fill(0)
	w.begin(2)
	assert.False(t, w.tap.MayGo(1))
	n, _ := archive.Gaps()
	require.Zero(t, n, "both lack the same frames")
	at := stream.Position{}
	_, mark := take(t, s, kept, &at)
	kept.Done(mark)
	assert.True(t, w.tap.MayGo(1))
	n, _ = archive.Gaps()
	require.EqualValues(t, 1, n)
	n, _ = kept.Gaps()
	require.Zero(t, n)
}

// A receiver that begins again reads nothing that only another receiver needs.
func TestAReceiverBeginsAgainAtItsMark(t *testing.T) {
	t.Parallel()
	s := open(t, config(vfs.NewMem()), stream.Position{})
	away, r := s.Receive(stream.Position{}), s.Receive(stream.Position{})
	w := newWriter(s, stream.Queue)
	w.begin(2)
	w.write([]byte("one"))
	w.sync()
	at := stream.Position{}
	_, mark := take(t, s, r, &at)
	r.Done(mark)
	w.write([]byte("two"))
	w.sync()
	again, err := r.Again(at)
	require.NoError(t, err)
	r.Close()
	frames, _ := take(t, s, again, &at)
	require.Len(t, frames, 1)
	assert.Equal(t, "two", string(frames[0].Data))
	n, _ := away.Behind(s.End())
	mine, _ := again.Behind(s.End())
	assert.Less(t, mine, n)
}

// A receiver with a bound gets the frames before the bound, and the frames behind the bound do not count as its lag.
func TestAReceiverStopsAtItsBound(t *testing.T) {
	t.Parallel()
	s := open(t, config(vfs.NewMem()), stream.Position{})
	r := s.Receive(stream.Position{})
	queue, table := newWriter(s, stream.Queue), newWriter(s, stream.Table)
	queue.begin(2)
	table.begin(5)
	queue.write([]byte("one"))
	bound := s.End()
	table.write([]byte("two"))
	queue.write([]byte("three"))
	queue.sync()
	table.sync()
	require.Equal(t, s.End(), s.Safe())
	whole, since := r.Behind(s.End())
	part, _ := r.Behind(bound)
	require.Positive(t, part)
	require.Less(t, part, whole)
	require.False(t, since.IsZero())
	frames, mark, err := r.Ready(1<<20, bound)
	require.NoError(t, err)
	at := stream.Position{}
	for _, f := range frames {
		at = at.After(f)
	}
	assert.Equal(t, bound, at)
	r.Done(mark)
	part, since = r.Behind(bound)
	assert.Zero(t, part)
	assert.True(t, since.IsZero())
	frames, _, err = r.Ready(1<<20, bound)
	require.NoError(t, err)
	assert.Empty(t, frames)
	// The queue's bytes come after the table's bytes, so they wait for them.
	frames, _, err = r.Ready(1<<20, bound.With(stream.Queue, s.End().Queue))
	require.NoError(t, err)
	assert.Empty(t, frames)
	frames, _, err = r.Ready(1<<20, s.End())
	require.NoError(t, err)
	assert.Len(t, frames, 2)
}

// The spool leaves a tenth of the disk free.
type small struct {
	vfs.FS
	usage vfs.DiskUsage
}

func (s small) GetDiskUsage(string) (vfs.DiskUsage, error) { return s.usage, nil }

func TestASpoolThatCannotBeWrittenIsDropped(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	failing := func(ops ...string) func(*disktest.FS) vfs.FS {
		return func(fs *disktest.FS) vfs.FS {
			fs.Fail(broken, ops...)
			return fs
		}
	}
	for name, spoil := range map[string]func(*disktest.FS) vfs.FS{
		"no file":  failing("create"),
		"no write": failing("write"),
		"no sync":  failing("sync"),
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			require.NoError(t, mem.MkdirAll("stream", 0o700))
			s := open(t, config(spoil(disktest.New(mem))), stream.Position{})
			run(t, s)
			r := s.Receive(stream.Position{})
			w := newWriter(s, stream.Table)
			w.begin(1)
			w.write(noise(1000))
			w.sync()
			w.begin(2)
			w.tap.MayGo(1)
			lost(t, s, r, w, mem)
		})
	}
}

// A receiver that is behind what the stream has begins with a gap.
func TestAReceiverThatIsTooFarBehindHasAGap(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	begin := stream.Position{Queue: stream.Place{Log: 5, Offset: 5}, Table: stream.Place{Log: 6, Offset: 6}}
	s := open(t, config(mem), begin)
	assert.Equal(t, begin, s.End())
	_, _, err := s.Receive(stream.Position{Queue: begin.Queue}).Next(t.Context(), 1)
	assert.ErrorIs(t, err, stream.ErrGap)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = s.Receive(begin).Next(ctx, 1)
	assert.ErrorIs(t, err, context.Canceled)
}

// Rests of logs that do not fit into memory go to the spool at a start.
func TestAddedFramesGoToTheSpool(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := open(t, config(mem), stream.Position{})
	r := s.Receive(stream.Position{})
	s.Add(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Time: 7, Log: 1})
	for i := range 100 {
		s.Add(stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Time: 7, Log: 1, Offset: uint64(i) * 250_000, Data: noise(250_000)})
	}
	s.Add(stream.Frame{Kind: stream.Cut, Store: stream.Queue, Time: 7, Log: 1, Offset: 25_000_000})
	assert.LessOrEqual(t, s.Memory(), 9<<20)
	assert.Equal(t, s.End(), s.Safe())
	at := stream.Position{}
	frames, _ := take(t, s, r, &at)
	length := 0
	for _, f := range frames {
		length += len(f.Data)
		assert.Equal(t, int64(7), f.Time, "one restore point")
	}
	assert.Equal(t, 25_000_000, length)
}

// A receiver of Ahead gets frames before any sync, and wakes for the safe point. The frames stay until
// Done, although the receiver has read behind the safe point.
func TestAheadReceivesUnsafeFrames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, config(vfs.NewMem()), stream.Position{})
		r := s.Hold()
		r.From(stream.Position{})
		queue := newWriter(s, stream.Queue)
		var frames []stream.Frame
		var safe stream.Position
		look := func(n int) {
			t.Helper()
			for want := len(frames) + n; len(frames) < want; {
				some, _, at, err := r.Ahead(t.Context(), 1<<20, safe)
				require.NoError(t, err)
				frames, safe = append(frames, some...), at
			}
		}
		queue.begin(2)
		look(1)
		woken := make(chan stream.Position, 1)
		wait := func() {
			t.Helper()
			go func() {
				some, _, at, err := r.Ahead(t.Context(), 1<<20, safe)
				assert.NoError(t, err)
				frames = append(frames, some...)
				woken <- at
			}()
			synctest.Wait()
			require.Empty(t, woken)
		}
		wait()
		queue.write([]byte("answered later"))
		safe = <-woken
		require.Len(t, frames, 2)
		require.Equal(t, stream.Place{Log: 2}, safe.Queue, "the bytes are not synced")
		wait()
		queue.sync()
		safe = <-woken
		require.Equal(t, s.End(), safe)
		require.Len(t, frames, 2)
		require.Positive(t, s.Memory(), "the receiver has not confirmed the frames")
		again := s.Hold()
		again.From(stream.Position{})
		frames, safe = nil, stream.Position{}
		some, mark, _, err := again.Ahead(t.Context(), 1<<20, safe)
		require.NoError(t, err)
		require.Len(t, some, 2)
		r.Close()
		again.Done(mark)
		require.Zero(t, s.Memory())
		require.NoError(t, s.Close())
	})
}
