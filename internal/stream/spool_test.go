package stream_test

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/stream"
)

// spooled returns the file system and the files of a stream with some batches in its spool.
func spooled(t *testing.T, batches int) (mem *vfs.MemFS, name string, data []byte) {
	t.Helper()
	mem = vfs.NewMem()
	s := open(t, config(mem), stream.Position{})
	s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	for i := range batches {
		w.begin(uint64(i + 1))
		w.write(noise(100 + i))
		w.sync()
		w.tap.MayGo(uint64(i + 1))
	}
	require.NoError(t, s.Close())
	names := files(t, mem)
	require.Len(t, names, 1)
	return mem, "stream/" + names[0], readAll(t, mem, "stream/"+names[0])
}

func readAll(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	data := make([]byte, info.Size())
	_, err = f.ReadAt(data, 0)
	require.NoError(t, errors.Join(err, f.Close()))
	return data
}

func put(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(bytes.Clone(data)) // a file may change what it is given
	require.NoError(t, errors.Join(err, f.Close()))
}

// A spool that was cut at any byte has its whole batches, and the stream continues after them.
func TestASpoolThatWasCutHasItsWholeBatches(t *testing.T) {
	t.Parallel()
	mem, name, data := spooled(t, 3)
	logs := map[uint64]bool{}
	for cut := range len(data) + 1 {
		put(t, mem, name, data[:cut])
		s := open(t, config(mem), stream.Position{})
		end := s.End()
		logs[end.Table.Log] = true
		at := stream.Position{}
		frames, _ := take(t, s, s.Receive(stream.Position{}), &at)
		got := map[uint64]int{}
		for _, f := range frames {
			got[f.Log] += len(f.Data)
		}
		for log := uint64(1); log <= end.Table.Log; log++ {
			assert.Equal(t, 99+int(log), got[log], "cut %d, log %d", cut, log)
		}
		require.NoError(t, s.Close())
		for _, other := range files(t, mem) {
			require.NoError(t, mem.Remove("stream/"+other))
		}
	}
	assert.Equal(t, map[uint64]bool{0: true, 1: true, 2: true, 3: true}, logs)
}

// The spool that the former version left has the writes that the archive lacks.
func TestASpoolOfTheGoldenFileIsRead(t *testing.T) {
	t.Parallel()
	const golden = "testdata/spool1"
	if *update {
		_, _, data := spooled(t, 2)
		require.NoError(t, os.WriteFile(golden, data, 0o600))
	}
	data, err := os.ReadFile(golden)
	require.NoError(t, err)
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("stream", 0o700))
	put(t, mem, "stream/0000000000000000.spool", data)
	s := open(t, config(mem), stream.Position{})
	at := stream.Position{}
	frames, _ := take(t, s, s.Receive(stream.Position{}), &at)
	got := map[uint64][]byte{}
	for _, f := range frames {
		got[f.Log] = append(got[f.Log], f.Data...)
	}
	assert.Equal(t, map[uint64][]byte{1: noise(100), 2: noise(101)}, got)
	require.NoError(t, s.Close())
}

// A flipped bit in the frames is a gap, or the end of the spool. It is never handed on.
func TestADamagedSpoolIsNeverHandedOn(t *testing.T) {
	t.Parallel()
	mem, name, data := spooled(t, 2)
	want := map[uint64][]byte{1: noise(100), 2: noise(101)}
	for at := range data {
		flipped := bytes.Clone(data)
		flipped[at] ^= 1 << (at % 8)
		put(t, mem, name, flipped)
		s, err := stream.Open(config(mem), stream.Position{})
		if err != nil {
			continue // the format is a newer one
		}
		r := s.Receive(stream.Position{})
		for got := (stream.Position{}); !got.Covers(s.Safe()); {
			frames, _, err := r.Next(t.Context(), 1<<20)
			if err != nil {
				assert.ErrorIs(t, err, stream.ErrGap)
				break
			}
			for _, f := range frames {
				got = got.After(f)
				if f.Kind == stream.Bytes && !bytes.Equal(want[f.Log], f.Data) {
					t.Errorf("flip at %d: log %d has other bytes", at, f.Log)
				}
			}
		}
		require.NoError(t, s.Close())
		for _, other := range files(t, mem) {
			require.NoError(t, mem.Remove("stream/"+other))
		}
	}
}

// A batch whose sync has failed is written again to the next file, and the start must not find it twice: it would drop the frames before.
func TestASpoolGoesOnAfterAFailedSync(t *testing.T) {
	t.Parallel()
	fs := disktest.New(vfs.NewMem())
	c := config(fs)
	c.Keep = true
	s := open(t, c, stream.Position{})
	s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	for log := uint64(1); log <= 3; log++ {
		w.begin(log)
		w.write(noise(99 + int(log)))
		w.sync()
		if log == 2 {
			fs.Fail(syscall.EIO, "sync")
			require.False(t, w.tap.MayGo(log))
			fs.Set(nil)
		}
		require.True(t, w.tap.MayGo(log))
	}
	require.NoError(t, s.Close())
	s = open(t, c, stream.Position{})
	at, got := stream.Position{}, map[uint64][]byte{}
	frames, _ := take(t, s, s.Receive(stream.Position{}), &at)
	for _, f := range frames {
		got[f.Log] = append(got[f.Log], f.Data...)
	}
	assert.Equal(t, map[uint64][]byte{1: noise(100), 2: noise(101), 3: noise(102)}, got)
	require.NoError(t, s.Close())
}

func TestASpoolOfANewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	mem, name, data := spooled(t, 1)
	data[4]++
	put(t, mem, name, data)
	_, err := stream.Open(config(mem), stream.Position{})
	var format *disk.FormatError
	require.ErrorAs(t, err, &format)
	assert.Equal(t, stream.Format+1, format.Found)
}
