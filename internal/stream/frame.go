// Package stream carries the bytes of both stores' logs, in one order, to an archive or a
// standby. Each prefix of the stream up to a safe point leaves both stores in a state that a
// power cut could also leave. docs/decisions/0053-stream.md has the reasons and the rules S1 to
// S8.
//
// A Frame is the unit of the stream in memory, in the spool, in an archive and on a connection.
// The package knows neither Pebble's records (internal/follow parses the records) nor the
// receivers.
package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Format is the format of frames that this version writes. It is also the newest format that this version reads.
const Format = 1

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames. Begins, Bytes, Ends and Cut are about one log of one store. Safe and Seal are about
// both stores.
const (
	// Begins starts a log. Its offset is 0.
	Begins Kind = 1 + iota
	// Bytes are bytes of the log, beginning at the offset.
	Bytes
	// Ends ends a log. Its offset is the length of the log.
	Ends
	// Safe is a safe point: the stores have synced all bytes before its position.
	Safe
	// Cut ends a log after a crash: a receiver may have bytes from the offset on, and these bytes do not count.
	Cut
	// Seal ends the frames of a writer: later frames of this writer do not count.
	Seal
)

// Store names a store.
type Store uint8

// The stores. Frames of kind Safe and Seal have the store None.
const (
	None Store = iota
	Queue
	Table
)

// Frame is a piece of the stream.
type Frame struct {
	Kind  Kind
	Store Store
	// Time is the writer's time, in milliseconds since 1970.
	Time int64
	// Log and Offset are a place in the logs of the store.
	Log, Offset uint64
	// Data are at most MaxData bytes. Frames of kind Begins, Ends, Cut and Seal have no data.
	Data []byte
}

// MaxData is the largest length of Frame.Data.
const MaxData = 1 << 20

const (
	prefixLen = 8  // length and checksum
	headLen   = 26 // kind, store, time, log, offset
)

var (
	// ErrDamaged means that the input has bytes that no writer of frames wrote.
	ErrDamaged = errors.New("the frame is damaged")
	// ErrUnknownKind means that a newer version wrote the frame.
	ErrUnknownKind = errors.New("the frame has a kind that this version does not know: use a newer fanfare")
)

// Append appends a frame to dst in the form that Reader reads: length u32, crc32c u32, kind u8,
// store u8, time i64, log u64, offset u64, data. Numbers are little-endian. The length counts
// the bytes after the checksum, and the checksum covers these bytes.
func Append(dst []byte, f Frame) []byte {
	begin := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(headLen+len(f.Data)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = append(dst, byte(f.Kind), byte(f.Store))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.Time))
	dst = binary.LittleEndian.AppendUint64(dst, f.Log)
	dst = binary.LittleEndian.AppendUint64(dst, f.Offset)
	dst = append(dst, f.Data...)
	binary.LittleEndian.PutUint32(dst[begin+4:], checksum(dst[begin+prefixLen:]))
	return dst
}

// checksum returns the crc32c of b.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Len returns the length of the frame in the form of Append.
func (f Frame) Len() int { return prefixLen + headLen + len(f.Data) }

// check returns an error for a frame that no writer makes.
func (f Frame) check() error {
	if f.Kind < Begins || f.Kind > Seal {
		return fmt.Errorf("%w (%d)", ErrUnknownKind, f.Kind)
	}
	ofBoth := f.Kind == Safe || f.Kind == Seal
	sound := f.Store <= Table && ofBoth == (f.Store == None)
	switch f.Kind {
	case Bytes:
		sound = sound && len(f.Data) > 0
	case Safe:
		sound = sound && len(f.Data) == PositionLen
	default:
		sound = sound && len(f.Data) == 0
	}
	if !sound {
		return fmt.Errorf("%w: kind %d of store %d with %d bytes", ErrDamaged, f.Kind, f.Store, len(f.Data))
	}
	return nil
}

// Reader reads frames.
type Reader struct{ from io.Reader }

// NewReader returns a Reader of the frames in from. The Reader makes small reads, so from should be buffered.
func NewReader(from io.Reader) *Reader { return &Reader{from} }

// Next returns the next frame, whose Data belong to the caller. The error is io.EOF after the last frame,
// io.ErrUnexpectedEOF if the input ends inside a frame, ErrDamaged or ErrUnknownKind for a frame that
// cannot be used, or the input's own error. After an error the Reader must not be used again.
func (r *Reader) Next() (Frame, error) {
	var prefix [prefixLen]byte
	if _, err := io.ReadFull(r.from, prefix[:]); err != nil {
		return Frame{}, err
	}
	length := binary.LittleEndian.Uint32(prefix[:])
	if length < headLen || length > headLen+MaxData {
		return Frame{}, fmt.Errorf("%w: it is %d bytes long", ErrDamaged, length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r.from, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	if checksum(body) != binary.LittleEndian.Uint32(prefix[4:]) {
		return Frame{}, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	f := Frame{
		Kind: Kind(body[0]), Store: Store(body[1]), Time: int64(binary.LittleEndian.Uint64(body[2:])),
		Log: binary.LittleEndian.Uint64(body[10:]), Offset: binary.LittleEndian.Uint64(body[18:]),
	}
	if length > headLen {
		f.Data = body[headLen:]
	}
	return f, f.check()
}
