package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"fanfare/internal/disk"
	"fanfare/internal/stream"
)

// A segment has a header of a fixed size in big-endian order, the compressed frames, and the
// SHA-256 of the header and the frames.
const (
	segmentMagic  = "FFSG"
	segmentFormat = 1
	codecZstd     = 1

	flagGap  = 1 << 0
	flagSeal = 1 << 1

	nonceBytes  = 32
	headerBytes = 140
)

// MaxFrames is the largest number of bytes of frames in a segment.
const MaxFrames = 32 << 20

// maxSegmentBytes is larger than any object of a segment: zstd makes incompressible bytes a little longer.
const maxSegmentBytes = MaxFrames + MaxFrames>>7 + 4<<10

// Header describes a segment.
type Header struct {
	Term, N uint64
	// First and Last are the times of the first and the last frame, to the millisecond.
	First, Last time.Time
	// Start is the position before the first frame. End is the position after the last frame.
	Start, End stream.Position
	// Gap means that bytes before Start are missing: the spool was dropped.
	Gap bool
	// Seal means that the term ends with this object, which has no frames.
	Seal bool
	// Writer is the nonce of the term that wrote the segment. The writer of a seal is not the
	// term's writer, so a seal has a nonce of its own.
	Writer string
}

// Segment is a part of the stream, up to a safe point.
type Segment struct {
	Header
	Frames []byte
}

// Codec encodes and decodes segments. It may be used by several goroutines.
type Codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// NewCodec returns a codec.
func NewCodec() (*Codec, error) {
	// Encoder and decoder use one thread each, because the archive must not slow down the
	// traffic. EncodeAll gives equal bytes for equal frames, so a repeated try of a segment has
	// the same content.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(MaxFrames))
	if err != nil {
		return nil, err
	}
	return &Codec{enc, dec}, nil
}

// Encode returns the object of a segment.
func (c *Codec) Encode(s Segment) ([]byte, error) {
	if len(s.Frames) > MaxFrames {
		return nil, fmt.Errorf("a segment of %d bytes is above the limit of %d", len(s.Frames), MaxFrames)
	}
	if err := s.check(len(s.Frames)); err != nil {
		return nil, fmt.Errorf("segment %x of term %x cannot be written: %w", s.N, s.Term, err)
	}
	out := make([]byte, 0, headerBytes+len(s.Frames)/4+sha256.Size)
	out = append(out, segmentMagic...)
	out = binary.BigEndian.AppendUint16(out, segmentFormat)
	var flags byte
	if s.Gap {
		flags |= flagGap
	}
	if s.Seal {
		flags |= flagSeal
	}
	out = append(out, codecZstd, flags)
	for _, n := range []uint64{
		s.Term, s.N, uint64(s.First.UnixMilli()), uint64(s.Last.UnixMilli()),
		s.Start.Queue.Log, s.Start.Queue.Offset, s.Start.Table.Log, s.Start.Table.Offset,
		s.End.Queue.Log, s.End.Queue.Offset, s.End.Table.Log, s.End.Table.Offset,
	} {
		out = binary.BigEndian.AppendUint64(out, n)
	}
	out = append(out, s.Writer...)
	out = append(out, make([]byte, nonceBytes-len(s.Writer))...)
	out = c.enc.EncodeAll(s.Frames, binary.BigEndian.AppendUint32(out, uint32(len(s.Frames))))
	sum := sha256.Sum256(out)
	return append(out, sum[:]...), nil
}

// Decode reads the object of segment n of a term. It returns an empty segment for a damaged object.
func (c *Codec) Decode(object []byte, term, n uint64) (Segment, error) {
	data := fmt.Sprintf("segment %x of term %x of the archive", n, term)
	damaged := func(fault string) (Segment, error) {
		return Segment{}, fmt.Errorf("%s is damaged: %s", data, fault)
	}
	if len(object) < headerBytes+sha256.Size || string(object[:len(segmentMagic)]) != segmentMagic {
		return damaged("it has no header")
	}
	body, sum := object[:len(object)-sha256.Size], object[len(object)-sha256.Size:]
	if want := sha256.Sum256(body); !bytes.Equal(sum, want[:]) {
		return damaged("it differs from its SHA-256")
	}
	header, size, err := decodeHeader(body, term, n)
	if err != nil {
		return Segment{}, err
	}
	s := Segment{Header: header}
	frames, err := c.dec.DecodeAll(body[headerBytes:], make([]byte, 0, size))
	if err != nil || len(frames) != size {
		return damaged(fmt.Sprintf("it has %d of %d bytes of frames (%v)", len(frames), size, err))
	}
	s.Frames = frames
	return s, nil
}

// decodeHeader reads the header at the beginning of the object of segment n of a term. It also
// returns the number of bytes of frames.
func decodeHeader(object []byte, term, n uint64) (Header, int, error) {
	data := fmt.Sprintf("segment %x of term %x of the archive", n, term)
	damaged := func(fault string) (Header, int, error) {
		return Header{}, 0, fmt.Errorf("%s is damaged: %s", data, fault)
	}
	if len(object) < headerBytes || string(object[:len(segmentMagic)]) != segmentMagic {
		return damaged("it has no header")
	}
	if err := disk.CheckFormat(data, strconv.Itoa(int(binary.BigEndian.Uint16(object[4:]))), segmentFormat); err != nil {
		return Header{}, 0, err
	}
	codec, flags := object[6], object[7]
	if codec != codecZstd || flags&^(flagGap|flagSeal) != 0 {
		return damaged(fmt.Sprintf("it has the codec %d and the flags %x", codec, flags))
	}
	var words [12]uint64
	for i := range words {
		words[i] = binary.BigEndian.Uint64(object[8+8*i:])
	}
	h := Header{
		Term: words[0], N: words[1], First: time.UnixMilli(int64(words[2])).UTC(), Last: time.UnixMilli(int64(words[3])).UTC(),
		Start: stream.Position{Queue: place(words[4:]), Table: place(words[6:])},
		End:   stream.Position{Queue: place(words[8:]), Table: place(words[10:])},
		Gap:   flags&flagGap != 0, Seal: flags&flagSeal != 0,
		Writer: string(bytes.TrimRight(object[104:104+nonceBytes], "\x00")),
	}
	size := int(binary.BigEndian.Uint32(object[headerBytes-4:]))
	if size > MaxFrames {
		return damaged(fmt.Sprintf("it has %d bytes of frames", size))
	}
	if err := h.check(size); err != nil {
		return damaged(err.Error())
	}
	if h.Term != term || h.N != n {
		return damaged(fmt.Sprintf("it is segment %x of term %x", h.N, h.Term))
	}
	return h, size, nil
}

func place(words []uint64) stream.Place { return stream.Place{Log: words[0], Offset: words[1]} }

func (h Header) check(size int) error {
	switch {
	case h.Term == 0 || h.N == 0 || h.N > maxSegment:
		return errors.New("its numbers are out of range")
	case h.Writer == "" || len(h.Writer) > nonceBytes || h.Writer[len(h.Writer)-1] == 0:
		return errors.New("it has no writer")
	case !h.End.Covers(h.Start):
		return errors.New("it ends before it begins")
	case h.Last.Before(h.First):
		return errors.New("its last time is before its first")
	case h.Seal && (size > 0 || h.Gap || h.Start != h.End):
		return errors.New("a seal has no frames")
	}
	return nil
}
