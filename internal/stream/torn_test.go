package stream_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/stream"
)

// A power cut during a write of the spool may leave any pages of the last batch, and the length of the file. The logs have these frames,
// so the stream ends before the batch.
func TestABatchThatIsOnTheDiskOnlyInPartIsReadFromTheLogs(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := open(t, config(mem), stream.Position{})
	s.Receive(stream.Position{})
	w := newWriter(s, stream.Queue)
	var ends []int
	for log := range uint64(2) {
		w.begin(log + 1)
		w.write(noise(30_000 + int(log)))
		w.sync()
		w.tap.MayGo(log + 1) // a batch each
		ends = append(ends, len(readAll(t, mem, "stream/"+files(t, mem)[0])))
	}
	require.NoError(t, s.Close())
	name := "stream/" + files(t, mem)[0]
	whole := readAll(t, mem, name)
	whole = whole[:ends[1]]
	random, torn := rand.New(rand.NewPCG(1, 1)), 0
	for range 60 {
		data := bytes.Clone(whole)
		for page := ends[0]; page < len(data); page = page/4096*4096 + 4096 {
			if random.IntN(3) == 0 {
				clear(data[page:min(len(data), page/4096*4096+4096)])
			}
		}
		put(t, mem, name, data)
		s := open(t, config(mem), stream.Position{})
		at := stream.Position{}
		take(t, s, s.Receive(stream.Position{}), &at)
		if bytes.Equal(data, whole) {
			assert.EqualValues(t, 30_001, s.End().Queue.Offset)
		} else {
			torn++
			assert.Equal(t, stream.Place{Log: 1, Offset: 30_000}, s.End().Queue, "the start reads the logs from here on")
		}
		// The next process writes to another file, and the torn batch stays where it is.
		again := newWriter(s, stream.Queue)
		again.begin(9)
		again.write(noise(100))
		again.sync()
		again.tap.MayGo(9)
		require.NoError(t, s.Close())
		s = open(t, config(mem), stream.Position{})
		at = stream.Position{}
		frames, _ := take(t, s, s.Receive(stream.Position{}), &at)
		got := map[uint64][]byte{}
		for _, f := range frames {
			got[f.Log] = append(got[f.Log], f.Data...)
		}
		assert.Equal(t, noise(30_000), got[1])
		assert.Equal(t, noise(100), got[9])
		require.NoError(t, s.Close())
		for _, other := range files(t, mem) {
			require.NoError(t, mem.Remove("stream/"+other))
		}
	}
	assert.Positive(t, torn)
}

// The frames of a batch in the middle were dropped, when the spool was full. The frames behind them do not continue the frames before them.
func TestASpoolWithAHoleBeginsBehindIt(t *testing.T) {
	t.Parallel()
	_, _, one := spooled(t, 1)
	_, _, two := spooled(t, 2)
	mem, name, three := spooled(t, 3)
	require.Equal(t, two, three[:len(two)])
	put(t, mem, name, append(bytes.Clone(one), three[len(two):]...))
	s := open(t, config(mem), stream.Position{})
	r := s.Receive(stream.Position{})
	_, _, err := r.Next(t.Context(), 1<<20)
	require.ErrorIs(t, err, stream.ErrGap)
	assert.EqualValues(t, 3, s.End().Table.Log)
	require.NoError(t, s.Close())
}

// A power cut must not bring back a file of the spool: the logs that continue it are gone.
func TestAPowerCutBringsNoFileBack(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	s := open(t, config(mem), stream.Position{})
	s.Receive(stream.Position{})
	w := newWriter(s, stream.Table)
	w.begin(1)
	w.write(noise(100))
	w.sync()
	w.tap.MayGo(1)
	end := s.End()
	require.NoError(t, s.Close())
	after := mem.CrashClone(vfs.CrashCloneCfg{})
	require.Len(t, files(t, after), 1)
	require.NoError(t, open(t, config(after), end).Close())
	require.Empty(t, files(t, after.CrashClone(vfs.CrashCloneCfg{})))
}
