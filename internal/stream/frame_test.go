package stream_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/stream"
)

var update = flag.Bool("update", false, "write the golden file of this format")

// each returns a frame of each kind, with the smallest and largest numbers.
func each() []stream.Frame {
	return []stream.Frame{
		{Kind: stream.Begins, Store: stream.Queue, Time: 1_795_000_000_000, Log: 7},
		{Kind: stream.Bytes, Store: stream.Queue, Time: 1_795_000_000_001, Log: 7, Offset: 0, Data: []byte("a record of the log")},
		{Kind: stream.Begins, Store: stream.Table, Time: -1, Log: math.MaxUint64},
		{Kind: stream.Bytes, Store: stream.Table, Log: math.MaxUint64, Offset: math.MaxUint64, Data: []byte{0}},
		stream.SafeAt(stream.Position{Queue: stream.Place{Log: 7, Offset: 19}, Table: stream.Place{Log: 3, Offset: 1 << 40}}, 5),
		{Kind: stream.Ends, Store: stream.Queue, Time: 6, Log: 7, Offset: 19},
		{Kind: stream.Cut, Store: stream.Table, Time: 7, Log: 3, Offset: 11},
		{Kind: stream.Seal, Time: 8},
	}
}

func encode(frames ...stream.Frame) (encoded []byte) {
	for _, f := range frames {
		encoded = stream.Append(encoded, f)
	}
	return encoded
}

// read returns the frames of an input, and the error that ended it.
func read(input io.Reader) (frames []stream.Frame, err error) {
	for r := stream.NewReader(input); ; {
		f, err := r.Next()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
}

// The spool, the archive and a standby of another version read the frames that this version writes.
func TestFramesHaveTheFormOfTheGoldenFile(t *testing.T) {
	t.Parallel()
	const file = "testdata/frames1.hex"
	if *update {
		var text strings.Builder
		for _, f := range each() {
			text.WriteString(hex.EncodeToString(encode(f)) + "\n")
		}
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	golden, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	require.NoError(t, err)
	assert.Equal(t, golden, encode(each()...))
	got, err := read(bytes.NewReader(golden))
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, each(), got)
}

func TestFramesAreReadInWhateverPiecesTheyArrive(t *testing.T) {
	t.Parallel()
	got, err := read(iotest.OneByteReader(bytes.NewReader(encode(each()...))))
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, each(), got)
	largest := stream.Frame{Kind: stream.Bytes, Store: stream.Table, Data: make([]byte, stream.MaxData)}
	got, err = read(iotest.HalfReader(bytes.NewReader(encode(largest))))
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, []stream.Frame{largest}, got)
	assert.Len(t, encode(largest), largest.Len())
}

// If the input is cut at any byte, the reader returns the whole frames before the cut. The
// error shows whether the cut is between two frames.
func TestACutInsideAFrameIsNoEnd(t *testing.T) {
	t.Parallel()
	encoded := encode(each()...)
	whole, ends := 0, map[int]int{0: 0}
	for i, f := range each() {
		whole += f.Len()
		ends[whole] = i + 1
	}
	n := 0
	for cut := range encoded {
		got, err := read(bytes.NewReader(encoded[:cut]))
		if frames, sound := ends[cut]; sound {
			n = frames
			assert.Equal(t, io.EOF, err, cut)
		} else {
			assert.Equal(t, io.ErrUnexpectedEOF, err, cut)
		}
		assert.Len(t, got, n, cut)
	}
	broken := errors.New("the connection broke")
	_, err := read(io.MultiReader(bytes.NewReader(encoded[:40]), iotest.ErrReader(broken)))
	assert.ErrorIs(t, err, broken)
}

// A frame with any flipped bit is refused.
func TestAFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	for _, f := range each() {
		encoded := encode(f)
		for bit := range 8 * len(encoded) {
			flipped := bytes.Clone(encoded)
			flipped[bit/8] ^= 1 << (bit % 8)
			got, err := read(bytes.NewReader(flipped))
			if len(got) > 0 || !errors.Is(err, stream.ErrDamaged) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("bit %d of a frame of kind %d: %v, %v", bit, f.Kind, got, err)
			}
		}
	}
}

func TestFramesThatNoWriterMakesAreRefused(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct {
		frame stream.Frame
		want  error
	}{
		"no kind":                  {stream.Frame{Store: stream.Queue}, stream.ErrUnknownKind},
		"a kind of a newer format": {stream.Frame{Kind: stream.Seal + 1}, stream.ErrUnknownKind},
		"no store":                 {stream.Frame{Kind: stream.Bytes, Data: []byte{1}}, stream.ErrDamaged},
		"a third store":            {stream.Frame{Kind: stream.Begins, Store: stream.Table + 1}, stream.ErrDamaged},
		"a seal of one store":      {stream.Frame{Kind: stream.Seal, Store: stream.Queue}, stream.ErrDamaged},
		"a safe point of a store":  {stream.Frame{Kind: stream.Safe, Store: stream.Queue, Data: make([]byte, 32)}, stream.ErrDamaged},
		"half a position":          {stream.Frame{Kind: stream.Safe, Data: make([]byte, 16)}, stream.ErrDamaged},
		"no bytes":                 {stream.Frame{Kind: stream.Bytes, Store: stream.Queue}, stream.ErrDamaged},
		"a beginning with bytes":   {stream.Frame{Kind: stream.Begins, Store: stream.Queue, Data: []byte{1}}, stream.ErrDamaged},
		"an end with bytes":        {stream.Frame{Kind: stream.Ends, Store: stream.Queue, Data: []byte{1}}, stream.ErrDamaged},
		"too many bytes":           {stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Data: make([]byte, stream.MaxData+1)}, stream.ErrDamaged},
	} {
		_, err := read(bytes.NewReader(encode(bad.frame)))
		assert.ErrorIs(t, err, bad.want, name)
	}
}

// No input makes the reader panic or read too far, and each frame that the reader accepts has only one encoding.
func FuzzReader(f *testing.F) {
	f.Add(encode(each()...))
	for _, frame := range each() {
		f.Add(encode(frame))
	}
	f.Add([]byte{26, 0, 0, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		frames, err := read(bytes.NewReader(input))
		require.Error(t, err)
		again := encode(frames...)
		if !bytes.HasPrefix(input, again) {
			t.Errorf("%x is read as %v, which is written as %x", input, frames, again)
		}
		if errors.Is(err, io.EOF) && len(again) != len(input) {
			t.Errorf("%d of %d bytes are in frames, but the end is sound", len(again), len(input))
		}
	})
}

func TestPlacesAndPositions(t *testing.T) {
	t.Parallel()
	at := func(log, offset uint64) stream.Place { return stream.Place{Log: log, Offset: offset} }
	assert.True(t, at(1, 9).Before(at(2, 0)))
	assert.True(t, at(2, 0).Before(at(2, 1)))
	assert.False(t, at(2, 1).Before(at(2, 1)))
	assert.False(t, at(2, 1).Before(at(1, 9)))
	p := stream.Position{Queue: at(2, 1), Table: at(5, 5)}
	for want, q := range map[stream.Position]bool{
		{}: true, p: true, {Queue: at(2, 2)}: false, {Table: at(6, 0)}: false, {Queue: at(1, 9), Table: at(5, 5)}: true,
	} {
		assert.Equal(t, q, p.Covers(want), want)
	}
	assert.Equal(t, p, stream.SafeAt(p, 0).Position())
	assert.Equal(t, p.Queue, p.Of(stream.Queue))
	assert.Equal(t, p.Table, p.Of(stream.Table))
	for _, f := range each() {
		got := p.After(f)
		if f.Store == stream.None || f.Kind == stream.Cut { // the cut is in an earlier log
			assert.Equal(t, p, got)
			continue
		}
		assert.Equal(t, p.With(f.Store, at(f.Log, f.Offset+uint64(len(f.Data)))), got)
	}
}
