package pair

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync/atomic"
	"time"

	"fanfare/internal/stream"
)

// kind is the kind of a message.
type kind uint8

// The kinds of messages. The standby sends only msgAck, msgTaken, msgBye and msgMoved.
const (
	// msgResume means that frames follow from the standby's position on.
	msgResume kind = 1 + iota
	// msgRefused ends a session. It has the reason as a text.
	msgRefused
	// msgFrames has frames of the stream in the form of stream.Append.
	msgFrames
	// msgBeat is a heartbeat: it has a number, and asks for a promise.
	msgBeat
	// msgPaired means that answers wait for the standby from now on, and that the standby has all earlier answered writes.
	msgPaired
	// msgSeed begins a seed.
	msgSeed
	// msgFile begins a file of a seed. It has the name of the file.
	msgFile
	// msgContent has bytes of the file.
	msgContent
	// msgWhole ends a seed. It has the rest of the list of its files, in the form of seedFile.append: the standby has a whole copy if its
	// files are these.
	msgWhole
	// msgTakeOver makes the standby the primary.
	msgTakeOver
	// msgAck has the position up to which the standby has the stream on its disk, and the number of a heartbeat, for which it
	// is a promise, unless the number has noPromise.
	msgAck
	// msgTaken has the end of the logs of a standby that has become the primary, and its term.
	msgTaken
	// msgBye means that the standby stops in order.
	msgBye
	// msgListed has a part of the list of a seed's files, before msgWhole.
	msgListed
	// msgMove has the address of the register to which the pair moves.
	msgMove
	// msgMoved means that the standby has stored this address, and begins again with that register.
	msgMoved
)

const (
	// maxMessage is the largest length of a message.
	maxMessage = stream.MaxData + 1<<16
	// pieceSize is the length up to which frames and files are sent in one message.
	pieceSize = 256 << 10
	prefixLen = 9
)

// message is a message of a session.
type message struct {
	kind kind
	data []byte
}

// appendMessage appends a message: kind u8, length u32, crc32c of kind, length and data u32, data. Numbers are little-endian.
func appendMessage(dst []byte, m message) []byte {
	begin := len(dst)
	dst = append(dst, byte(m.kind))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(m.data)))
	dst = binary.LittleEndian.AppendUint32(dst, messageSum(dst[begin:], m.data))
	return append(dst, m.data...)
}

func messageSum(head, data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(head, table), table, data)
}

// readMessage reads a message.
func readMessage(from io.Reader) (m message, err error) {
	var prefix [prefixLen]byte
	if _, err := io.ReadFull(from, prefix[:]); err != nil {
		return m, err
	}
	m.kind = kind(prefix[0])
	length := binary.LittleEndian.Uint32(prefix[1:])
	if length > maxMessage {
		return m, fmt.Errorf("%w: a message of %d bytes", ErrDamaged, length)
	}
	m.data = make([]byte, length)
	if _, err := io.ReadFull(from, m.data); err != nil {
		return m, err
	}
	if messageSum(prefix[:5], m.data) != binary.LittleEndian.Uint32(prefix[5:]) {
		return m, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	return m, nil
}

// link sends and receives the messages of a session.
type link struct {
	conn    net.Conn
	from    *bufio.Reader
	silence atomic.Int64 // a peer that is silent for longer, in nanoseconds, is away

	// turn guards buf, and orders the messages. It is no mutex, because a sender may wait for the connection.
	turn chan struct{}
	buf  []byte
}

func newLink(conn net.Conn, silence time.Duration) *link {
	l := &link{conn: conn, from: bufio.NewReaderSize(conn, 64<<10), turn: make(chan struct{}, 1)}
	l.silence.Store(int64(silence))
	return l
}

func (l *link) deadline() time.Time { return time.Now().Add(time.Duration(l.silence.Load())) }

// send sends a message.
func (l *link) send(k kind, data []byte) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if err := l.conn.SetWriteDeadline(l.deadline()); err != nil {
		return err
	}
	l.buf = appendMessage(l.buf[:0], message{k, data})
	_, err := l.conn.Write(l.buf)
	return err
}

// receive returns the next message.
func (l *link) receive() (message, error) {
	if err := l.conn.SetReadDeadline(l.deadline()); err != nil {
		return message{}, err
	}
	return readMessage(l.from)
}

// unexpected is the error for a message that the other side must not send now.
func unexpected(k kind) error { return fmt.Errorf("%w: a message of kind %d", ErrDamaged, k) }

// ackLen is the length of an ack: a position and the number of a heartbeat.
const ackLen = 40

// noPromise is added to the number of a heartbeat in an ack that is no promise.
const noPromise = 1 << 63

// appendAck appends the content of an ack.
func appendAck(dst []byte, at stream.Position, beat uint64) []byte {
	return binary.LittleEndian.AppendUint64(at.Append(dst), beat)
}

// parseAck returns the content of an ack.
func parseAck(data []byte) (at stream.Position, beat uint64, err error) {
	if len(data) != ackLen {
		return at, 0, fmt.Errorf("%w: an ack of %d bytes", ErrDamaged, len(data))
	}
	return stream.ParsePosition(data), binary.LittleEndian.Uint64(data[ackLen-8:]), nil
}

// takenLen is the length of the content of msgTaken: a position and a term.
const takenLen = stream.PositionLen + 8

// taken is the content of msgTaken.
type taken struct {
	at   stream.Position
	term uint64
}

func (t taken) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(t.at.Append(dst), t.term)
}

// parseTaken reads takenLen bytes.
func parseTaken(data []byte) taken {
	return taken{stream.ParsePosition(data), binary.LittleEndian.Uint64(data[stream.PositionLen:])}
}
