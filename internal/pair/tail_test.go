package pair

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/stream"
)

// piece returns a frame of a log of the queue.
func piece(offset uint64, data string) stream.Frame {
	return stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Time: 1, Log: 2, Offset: offset, Data: []byte(data)}
}

// content returns the bytes of the log in a tail.
func content(t *testing.T, r *tailReader) (got string) {
	t.Helper()
	for {
		f, ok, _, err := r.next()
		require.NoError(t, err)
		if !ok {
			return got
		}
		if f.Kind == stream.Bytes && f.Offset <= uint64(len(got)) {
			got = got[:f.Offset] + string(f.Data)
		}
	}
}

// tailOn returns a tail with some frames on a disk.
func tailOn(t *testing.T) (*tail, *disktest.FS) {
	t.Helper()
	files := disktest.New(vfs.NewMem())
	opened, err := openTail(files, "tail", 1<<20)
	require.NoError(t, err)
	require.NoError(t, opened.append(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Time: 1, Log: 2}, piece(0, "first ")))
	_, err = opened.sync()
	require.NoError(t, err)
	return opened, files
}

// A disk that fails leaves a part of the frames in the tail. Later frames are behind it, and a start must find them.
func TestATailContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	for _, fails := range []struct {
		op  string
		err error
	}{{"write", syscall.ENOSPC}, {"sync", syscall.EIO}, {"create", syscall.ENOSPC}} {
		t.Run(fails.op, func(t *testing.T) {
			opened, files := tailOn(t)
			if fails.op == "create" {
				require.NoError(t, opened.disk.Close())
			}
			reader := opened.reader()
			before := opened.end()
			files.Fail(fails.err, fails.op)
			for range 3 { // each session brings the frames again
				require.NoError(t, opened.append(piece(6, "second ")))
				_, err := opened.sync()
				require.ErrorIs(t, err, fails.err)
				require.Equal(t, before, opened.end())
				opened.drop()
				_, err = opened.sync()
				require.ErrorIs(t, err, fails.err, "a disk that takes nothing confirms a heartbeat")
			}
			names, err := files.List("tail")
			require.NoError(t, err)
			require.LessOrEqual(t, len(names), 2, "each failure leaves a file")
			files.Set(nil)
			at, err := opened.sync()
			require.NoError(t, err)
			require.Equal(t, before, at)
			require.NoError(t, opened.append(piece(6, "second "), piece(13, "third")))
			at, err = opened.sync()
			require.NoError(t, errors.Join(err, opened.disk.Close()))
			require.Equal(t, "first second third", content(t, reader))
			require.NoError(t, reader.close())

			again, err := openTail(files, "tail", 1<<20)
			require.NoError(t, err)
			require.Equal(t, at, again.end(), "a start finds other frames than were confirmed")
			reader = again.reader()
			require.Equal(t, "first second third", content(t, reader))
			require.NoError(t, reader.close())
		})
	}
}

// A failed write leaves frames in the newest file that the list of an ordered end does not count.
func TestATailEndsInOrderAfterAFailure(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"write", "sync"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			opened, files := tailOn(t)
			end := opened.end()
			files.Fail(syscall.EIO, op)
			require.NoError(t, opened.append(piece(6, "second ")))
			_, err := opened.sync()
			require.ErrorIs(t, err, syscall.EIO)
			opened.drop()
			files.Set(nil)
			require.NoError(t, opened.finish())

			again, err := openTail(files, "tail", 1<<20)
			require.NoError(t, err, "a sound disk is refused")
			require.GreaterOrEqual(t, again.end().Queue.Offset, end.Queue.Offset)
		})
	}
}

// read returns the content of the only file of a tail.
func read(t *testing.T, files vfs.FS, name string) []byte {
	t.Helper()
	f, err := files.Open(name)
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, errors.Join(err, f.Close()))
	return data
}

// written returns a tail whose only file has a content.
func written(t *testing.T, data []byte) (*tail, error) {
	t.Helper()
	files := vfs.NewMem()
	require.NoError(t, files.MkdirAll("tail", 0o700))
	f, err := files.Create("tail/0000000000000000.tail", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(slices.Clone(data)) // a write may change its bytes
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	return openTail(files, "tail", 1<<20)
}

// A crash leaves a part of the last write. Damage before the last write is no crash: the standby has confirmed the frames, and
// must not be promoted without them.
func TestADamagedTailIsRefused(t *testing.T) {
	t.Parallel()
	opened, files := tailOn(t)
	var ends []int
	for _, f := range []stream.Frame{piece(6, "second "), piece(13, "third "), piece(19, "last")} {
		ends = append(ends, len(read(t, files, "tail/0000000000000000.tail")))
		require.NoError(t, opened.append(f))
		_, err := opened.sync()
		require.NoError(t, err)
	}
	whole := read(t, files, "tail/0000000000000000.tail")
	last := ends[2]
	for at := range whole {
		torn, err := written(t, whole[:at])
		require.NoError(t, err, "cut at %d", at)
		require.LessOrEqual(t, torn.end().Queue.Offset, uint64(23))
		for _, bit := range []byte{1, 128} {
			damaged := slices.Clone(whole)
			damaged[at] ^= bit
			got, err := written(t, damaged)
			if at < last {
				require.ErrorIs(t, err, ErrDamagedCopy, "a flip at %d", at)
			} else {
				require.NoError(t, err, "a flip at %d looks like a crash", at)
				require.EqualValues(t, 19, got.end().Queue.Offset)
			}
		}
	}
}

// The bytes behind a cut do not count until the next log begins: no archive ever gets them.
func TestATailCountsNoBytesBehindACut(t *testing.T) {
	t.Parallel()
	opened, _ := tailOn(t)
	cut := stream.Frame{Kind: stream.Cut, Store: stream.Queue, Log: 2, Offset: 3}
	for _, next := range []struct {
		stream.Frame
		counts stream.Place
	}{{cut, cut.End()}, {stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 3}, stream.Place{Log: 3}}} {
		require.NoError(t, opened.append(next.Frame))
		_, err := opened.sync()
		require.NoError(t, err)
		require.Equal(t, next.counts, opened.counts().Queue)
	}
}

// The frames of a log behind the safe point are held, so a log that is being applied needs its file although the next log has begun.
func TestATailKeepsTheFileOfTheLogThatIsApplied(t *testing.T) {
	t.Parallel()
	opened, err := openTail(vfs.NewMem(), "tail", 1)
	require.NoError(t, err)
	for n := uint64(1); n < 4; n++ { // a file has the beginning of a log of each store
		for store := stream.Queue; store <= stream.Table; store++ {
			log := stream.Frame{Kind: stream.Begins, Store: store, Log: n}
			ends := log
			ends.Kind = stream.Ends
			require.NoError(t, opened.append(log, ends))
		}
		_, err = opened.sync()
		require.NoError(t, err)
	}
	for applied := uint64(1); applied < 4; applied++ {
		at := stream.Place{Log: applied}
		require.Equal(t, applied-1, opened.needed(stream.Position{Queue: at, Table: at}))
		require.Equal(t, applied-1, opened.needed(stream.Position{Queue: at, Table: stream.Place{Log: 3}}))
	}
	require.NoError(t, opened.disk.Close())
}
