package archive_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/disk"
	"fanfare/internal/strictjson"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 11, 26, 12, 0, 0, 123e6, time.UTC)

func someTerm() archive.Term {
	return archive.Term{
		Format: 1, Number: 0x1a, Parent: archive.Parent{Term: 0x19, Position: archive.Position(at(7, 8))}, From: archive.Position(at(70, 80)), Lineage: "01JD8QJ4WZ0000000000000001", Node: "01JD8QJ4WZ0000000000000002",
		Version: "v0.1.0", DataFormat: 2, Nonce: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", At: noon,
	}
}

func someSegment() archive.Segment {
	return archive.Segment{
		Header: archive.Header{
			Term: 0x1a, N: 0x2b, First: noon, Last: noon.Add(time.Second), Start: at(70, 80), End: at(170, 80), Gap: true, Writer: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		},
		Frames: bytes.Repeat([]byte("frames of the stream; "), 20),
	}
}

func someSeal() archive.Segment {
	return archive.Segment{Header: archive.Header{Term: 0x1a, N: 0x2c, First: noon, Last: noon, Start: at(170, 80), End: at(170, 80), Seal: true, Writer: "Z"}, Frames: []byte{}}
}

func someBase() archive.Base {
	sum := strings.Repeat("0123456789abcdef", 4)
	return archive.Base{
		Format: 1, DataFormat: 2, MadeAt: noon, Version: "v0.1.0", Lineage: "01JD8QJ4WZ0000000000000001", Term: 0x1a, First: 0x2b, From: archive.Position(at(100, 80)), To: archive.Position(at(150, 80)),
		Files: []archive.File{{Name: "queue/000012.log", Bytes: 1 << 20, SHA256: sum}, {Name: "table/000034.sst", SHA256: sum}, {Name: "dev-secret", Bytes: 64, SHA256: sum}},
	}
}

// golden compares an object with the golden file of its format.
func golden(t *testing.T, name string, object []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, object, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	return want
}

func codec(tb testing.TB) *archive.Codec {
	tb.Helper()
	c, err := archive.NewCodec()
	require.NoError(tb, err)
	return c
}

func TestTheFormatsOfObjectsArePinned(t *testing.T) {
	t.Parallel()
	text, err := archive.EncodeTerm(someTerm())
	require.NoError(t, err)
	want := golden(t, "term1.json", text)
	assert.Equal(t, string(want), string(text))
	term, err := archive.DecodeTerm(want, 0x1a)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(someTerm(), term))

	paired := someTerm()
	paired.Format, paired.Pair = 2, &archive.Pair{Lineage: "L", Term: 3, Disk: "D"}
	text, err = archive.EncodeTerm(paired)
	require.NoError(t, err)
	want = golden(t, "term2.json", text)
	assert.Equal(t, string(want), string(text))
	term, err = archive.DecodeTerm(want, 0x1a)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(paired, term))

	text, err = someBase().Encode()
	require.NoError(t, err)
	want = golden(t, "base1.json", text)
	assert.Equal(t, string(want), string(text))
	base, err := archive.DecodeBase(want, 0x1a, 0x2b)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(someBase(), base))

	for name, s := range map[string]archive.Segment{"segment1": someSegment(), "seal1": someSeal()} {
		object, err := codec(t).Encode(s)
		require.NoError(t, err)
		want = golden(t, name, object)
		assert.Equal(t, want[:140], object[:140], "the header of %s", name) // another zstd may compress differently
		back, err := codec(t).Decode(want, s.Term, s.N)
		require.NoError(t, err)
		assert.Empty(t, cmp.Diff(s, back))
	}
	assert.Equal(t, "b/000000000000001a-00000000002b.json", archive.BaseName(0x1a, 0x2b))
	assert.Equal(t, "f/00ff", archive.FileName("00ff"))
}

// resealed returns a segment with edited bytes and the right hash of these bytes.
func resealed(object []byte, edit func([]byte) []byte) []byte {
	body := edit(bytes.Clone(object[:len(object)-sha256.Size]))
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

func TestUnknownFormatsAreRefused(t *testing.T) {
	t.Parallel()
	newer := func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"format":1`), []byte(`"format":3,"of_tomorrow":true`), 1)
	}
	text, err := archive.EncodeTerm(someTerm())
	require.NoError(t, err)
	_, err = archive.DecodeTerm(newer(text), 0x1a)
	require.ErrorAs(t, err, new(*disk.FormatError))
	text, err = someBase().Encode()
	require.NoError(t, err)
	_, err = archive.DecodeBase(newer(text), 0x1a, 0x2b)
	require.ErrorAs(t, err, new(*disk.FormatError))
	object, err := codec(t).Encode(someSegment())
	require.NoError(t, err)
	_, err = codec(t).Decode(resealed(object, func(b []byte) []byte { b[5] = 2; return b }), 0x1a, 0x2b)
	require.ErrorAs(t, err, new(*disk.FormatError))
}

func TestDamagedSegmentsAreNamed(t *testing.T) {
	t.Parallel()
	c := codec(t)
	object, err := c.Encode(someSegment())
	require.NoError(t, err)
	for i := range object { // for each byte
		damaged := bytes.Clone(object)
		damaged[i] ^= 1
		_, err := c.Decode(damaged, 0x1a, 0x2b)
		require.ErrorContainsf(t, err, "segment 2b of term 1a of the archive", "byte %d", i)
	}
	for n := range object {
		_, err := c.Decode(object[:n], 0x1a, 0x2b)
		require.ErrorContainsf(t, err, "segment 2b of term 1a", "%d bytes", n)
	}
	for name, edit := range map[string]func([]byte) []byte{
		"codec":            func(b []byte) []byte { b[6] = 9; return b },
		"flags":            func(b []byte) []byte { b[7] |= 4; return b },
		"seal with frames": func(b []byte) []byte { b[7] = 2; return b },
		"another term":     func(b []byte) []byte { b[15]++; return b },
		"another number":   func(b []byte) []byte { b[23]++; return b },
		"backwards":        func(b []byte) []byte { binary.BigEndian.PutUint64(b[40:], 1<<40); return b },
		"no writer":        func(b []byte) []byte { clear(b[104:136]); return b },
		"too many frames":  func(b []byte) []byte { binary.BigEndian.PutUint32(b[136:], 1<<31); return b },
		"fewer frames":     func(b []byte) []byte { b[139]++; return b },
		"more frames":      func(b []byte) []byte { b[139]--; return b },
		"no frames":        func(b []byte) []byte { return b[:140] },
	} {
		_, err := c.Decode(resealed(object, edit), 0x1a, 0x2b)
		assert.ErrorContainsf(t, err, "damaged", name)
	}
	_, err = c.Decode(object, 0x1a, 0x2c)
	require.ErrorContains(t, err, "it is segment 2b of term 1a")
}

// A term and a list of a base decide what a restore reads, so each byte of them counts.
func TestDamagedTermsAndListsAreNamed(t *testing.T) {
	t.Parallel()
	term, err := archive.EncodeTerm(someTerm())
	require.NoError(t, err)
	base, err := someBase().Encode()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		text []byte
		read func([]byte) error
	}{
		"term": {term, func(text []byte) error { _, err := archive.DecodeTerm(text, 0x1a); return err }},
		"base": {base, func(text []byte) error { _, err := archive.DecodeBase(text, 0x1a, 0x2b); return err }},
	} {
		require.NoError(t, c.read(c.text))
		for i := range c.text {
			for _, bit := range []byte{1, 2, 4, 16} {
				damaged := bytes.Clone(c.text)
				damaged[i] ^= bit
				require.ErrorContainsf(t, c.read(damaged), " of the archive", "%s, byte %d: %s", name, i, damaged)
			}
			require.ErrorContainsf(t, c.read(c.text[:i]), " of the archive", "%s, %d bytes", name, i)
		}
	}
}

func TestSegmentsThatBreakTheRulesAreNotWritten(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*archive.Segment){
		"too large":   func(s *archive.Segment) { s.Frames = make([]byte, archive.MaxFrames+1) },
		"term 0":      func(s *archive.Segment) { s.Term = 0 },
		"number 0":    func(s *archive.Segment) { s.N = 0 },
		"large":       func(s *archive.Segment) { s.N = 1 << 48 },
		"no writer":   func(s *archive.Segment) { s.Writer = "" },
		"long writer": func(s *archive.Segment) { s.Writer = strings.Repeat("x", 33) },
		"backwards":   func(s *archive.Segment) { s.End.Queue.Offset = 0 },
		"time":        func(s *archive.Segment) { s.Last = s.First.Add(-time.Second) },
		"seal":        func(s *archive.Segment) { s.Seal, s.Gap, s.End = true, false, s.Start },
	} {
		s := someSegment()
		edit(&s)
		_, err := codec(t).Encode(s)
		assert.Errorf(t, err, name)
	}
}

func TestListsThatReachOutOfTheDirectoryAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "table/../../x", "table//x", "table/", "a\\b", "queue/000012.log"} {
		b := someBase()
		b.Files = append(b.Files, archive.File{Name: name, SHA256: b.Files[0].SHA256})
		_, err := b.Encode()
		require.Errorf(t, err, "%q", name)
		text, err := strictjson.MarshalSummed(b)
		require.NoError(t, err)
		_, err = archive.DecodeBase(text, b.Term, b.First)
		require.ErrorContainsf(t, err, "damaged", "%q", name)
	}
	for _, sum := range []string{"", "00", strings.Repeat("0", 63) + "g", strings.Repeat("A", 64), "../" + strings.Repeat("0", 61)} {
		b := someBase()
		b.Files[0].SHA256 = sum
		_, err := b.Encode()
		require.Errorf(t, err, "%q", sum)
	}
}

// A restore adds the sizes, and compares the sum with the room on its disk.
func TestAListWhoseSizesOverflowIsRefused(t *testing.T) {
	t.Parallel()
	for _, sizes := range [][2]int64{{1<<63 - 1, 1}, {1 << 60, 1}, {1<<63 - 1, 1<<63 - 1}} {
		b := someBase()
		b.Files[0].Bytes, b.Files[1].Bytes, b.Files[2].Bytes = sizes[0], sizes[1], 0
		text, err := strictjson.MarshalSummed(b)
		require.NoError(t, err)
		_, err = archive.DecodeBase(text, b.Term, b.First)
		require.ErrorContains(t, err, "more than")
	}
}

func FuzzDecodeSegment(f *testing.F) {
	c := codec(f)
	for _, s := range []archive.Segment{someSegment(), someSeal()} {
		object, err := c.Encode(s)
		require.NoError(f, err)
		f.Add(object[:len(object)-sha256.Size])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		s, err := c.Decode(append(bytes.Clone(body), sum[:]...), 0x1a, 0x2b)
		if err != nil {
			return
		}
		object, err := c.Encode(s)
		require.NoError(t, err)
		back, err := c.Decode(object, 0x1a, 0x2b)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(s, back))
	})
}

func FuzzDecodeTerm(f *testing.F) {
	text, err := archive.EncodeTerm(someTerm())
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		term, err := archive.DecodeTerm(text, 0x1a)
		if err != nil {
			return
		}
		again, err := archive.EncodeTerm(term)
		require.NoError(t, err)
		back, err := archive.DecodeTerm(again, 0x1a)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(term, back))
	})
}

func FuzzDecodeBase(f *testing.F) {
	text, err := someBase().Encode()
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		base, err := archive.DecodeBase(text, 0x1a, 0x2b)
		if err != nil {
			return
		}
		again, err := base.Encode()
		require.NoError(t, err)
		back, err := archive.DecodeBase(again, 0x1a, 0x2b)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(base, back))
	})
}
