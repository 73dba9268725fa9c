package stream

import "encoding/binary"

// Place is a place in the logs of one store. All earlier logs, and the log up to the offset,
// are before the place. The zero Place is before the first log.
type Place struct{ Log, Offset uint64 }

// Before reports whether p is an earlier place than other.
func (p Place) Before(other Place) bool {
	return p.Log < other.Log || p.Log == other.Log && p.Offset < other.Offset
}

// Position is a place in each store (S2). The stream has no other number that survives a
// process: after a power cut the logs themselves show where they end.
type Position struct{ Queue, Table Place }

// Of returns the place in a store.
func (p Position) Of(store Store) Place {
	if store == Queue {
		return p.Queue
	}
	return p.Table
}

// With returns the position p with another place in a store.
func (p Position) With(store Store, at Place) Position {
	if store == Queue {
		p.Queue = at
	} else {
		p.Table = at
	}
	return p
}

// Covers reports whether everything that is before other is also before p.
func (p Position) Covers(other Position) bool {
	return !p.Queue.Before(other.Queue) && !p.Table.Before(other.Table)
}

// After returns the position after a frame that follows p. A cut does not lower the position: the bytes
// that do not count are before the next log in any case.
func (p Position) After(f Frame) Position {
	if f.Store == None || f.End().Before(p.Of(f.Store)) {
		return p
	}
	return p.With(f.Store, f.End())
}

// End returns the place after a frame of a log.
func (f Frame) End() Place { return Place{f.Log, f.Offset + uint64(len(f.Data))} }

// PositionLen is the length of a position in the form of Append.
const PositionLen = 32

// Append appends the position to dst in 32 bytes: log and offset of the queue, log and offset of the table, little-endian.
func (p Position) Append(dst []byte) []byte {
	for _, n := range []uint64{p.Queue.Log, p.Queue.Offset, p.Table.Log, p.Table.Offset} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}

// ParsePosition returns the position that Append appended. src has 32 bytes or more.
func ParsePosition(src []byte) Position {
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(src[8*i:]) }
	return Position{Queue: Place{at(0), at(1)}, Table: Place{at(2), at(3)}}
}

// SafeAt returns the frame of a safe point.
func SafeAt(p Position, time int64) Frame {
	return Frame{Kind: Safe, Time: time, Data: p.Append(nil)}
}

// Position returns the position of a safe point. The frame comes from Reader or SafeAt.
func (f Frame) Position() Position { return ParsePosition(f.Data) }
