package embedded

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cespare/xxhash/v2"

	"fanfare/internal/queue"
)

// A record is a stored message:
//
//	version 1 | flow 8 | receives 4 | uuid | entries | key value … | payload
//
// Numbers of fixed width are big endian. The first byte of receives is the number of
// crashes, the next three bytes are the receives. A string is its length as a varint and
// its bytes; the payload is the remaining bytes. Flow is the hash of the group key. Flow
// is in the head, so that a message can be moved without decoding.
const (
	recordVersion = 1
	flowAt        = 1
	receivesAt    = flowAt + 8
	headBytes     = receivesAt + 4
)

// record is an encoded message with its head.
type record []byte

// errRecord is wrapped by every error of check and decode.
var errRecord = errors.New("unreadable record")

func newRecord(msg *message.Message, receives int) record {
	size := headBytes + len(msg.UUID) + len(msg.Payload) + 2*binary.MaxVarintLen32
	for key, value := range msg.Metadata {
		size += len(key) + len(value) + 2*binary.MaxVarintLen32
	}
	r := make(record, headBytes, size)
	r[0] = recordVersion
	binary.BigEndian.PutUint64(r[flowAt:], flowOf(msg.Metadata.Get(queue.MetaGroup)))
	r.setReceives(receives)
	r = appendString(r, msg.UUID)
	r = binary.AppendUvarint(r, uint64(len(msg.Metadata)))
	keys := make([]string, 0, queue.MaxMetadata) // stays on the stack
	for key := range msg.Metadata {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		r = appendString(r, key)
		r = appendString(r, msg.Metadata[key])
	}
	return append(r, msg.Payload...)
}

func appendString(r record, s string) record {
	return append(binary.AppendUvarint(r, uint64(len(s))), s...)
}

// flowOf returns the hash of a group key. The hash is stored, so the function must never change.
func flowOf(group string) uint64 { return xxhash.Sum64String(group) }

func (r record) flow() uint64 { return binary.BigEndian.Uint64(r[flowAt:]) }

const maxReceives = 1<<24 - 1

func (r record) receives() int { return int(binary.BigEndian.Uint32(r[receivesAt:]) & maxReceives) }

func (r record) setReceives(n int) {
	binary.BigEndian.PutUint32(r[receivesAt:], uint32(r[receivesAt])<<24|uint32(min(max(n, 0), maxReceives)))
}

// crashes returns the number of times that the process died while the message was in flight.
func (r record) crashes() int { return int(r[receivesAt]) }

// withCrash returns a copy of r with one more receive and one more crash.
func (r record) withCrash() record {
	c := r.withReceives(r.receives() + 1)
	c[receivesAt] = byte(min(r.crashes()+1, math.MaxUint8))
	return c
}

// withReceives returns a copy of r with another receive count.
func (r record) withReceives(n int) record {
	c := slices.Clone(r)
	c.setReceives(n)
	return c
}

// check returns an error if this version cannot read the head of r.
func (r record) check() error {
	switch {
	case len(r) < headBytes:
		return fmt.Errorf("%w: %d bytes", errRecord, len(r))
	case r[0] != recordVersion:
		return fmt.Errorf("%w: version %d, this program reads version %d", errRecord, r[0], recordVersion)
	}
	return nil
}

// decode returns the message. The message shares no memory with r, so the receiver of the
// message may change the payload.
func (r record) decode() (*message.Message, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	rest := []byte(r[headBytes:])
	uuid, rest, err := takeString(rest)
	if err != nil {
		return nil, err
	}
	entries, n := binary.Uvarint(rest)
	if n <= 0 || entries > uint64(len(rest)) {
		return nil, fmt.Errorf("%w: count of metadata", errRecord)
	}
	rest = rest[n:]
	msg := message.NewMessage(uuid, nil)
	for range entries {
		var key, value string
		if key, rest, err = takeString(rest); err != nil {
			return nil, err
		}
		if value, rest, err = takeString(rest); err != nil {
			return nil, err
		}
		msg.Metadata[key] = value
	}
	msg.Payload = slices.Clone(rest)
	return msg, nil
}

func takeString(b []byte) (string, []byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return "", nil, fmt.Errorf("%w: length of a string", errRecord)
	}
	return string(b[n : n+int(size)]), b[n+int(size):], nil
}

// place is a part of the store that has messages. The first byte of a message's key is its place.
type place byte

const (
	nowhere place = 0
	ready   place = 'r' // position: round, number
	delayed place = 'd' // position: due time, number
	dead    place = 'x' // position: time of the failure, number
	logged  place = 'l' // position: see eventLog
	// stateSpace has one item for each topic. formatSpace has the format version, the mark of a running process and
	// the state of the log of events.
	stateSpace  = 's'
	formatSpace = 'f'
)

// position orders the messages of a place. The number of a message is unique in its topic.
type position struct{ major, number uint64 }

func (p position) less(q position) bool {
	return p.major < q.major || p.major == q.major && p.number < q.number
}

// next returns the lowest position above p.
func (p position) next() position {
	if p.number == math.MaxUint64 {
		return position{p.major + 1, 0}
	}
	return position{p.major, p.number + 1}
}

// key returns place | topic | 0 | major | number. No topic has a zero byte in it.
func (p position) key(where place, topic string) []byte {
	k := make([]byte, 0, 1+len(topic)+1+positionBytes)
	k = append(k, byte(where))
	k = append(k, topic...)
	return p.append(append(k, 0))
}

func (p position) append(to []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(to, p.major), p.number)
}

// positionBytes is the length of the position at the end of a key.
const positionBytes = 16

// positionOf reads the position at the end of a key.
func positionOf(key []byte) (position, bool) {
	if len(key) < positionBytes {
		return position{}, false
	}
	at := key[len(key)-positionBytes:]
	return position{binary.BigEndian.Uint64(at), binary.BigEndian.Uint64(at[8:])}, true
}

// String returns the position as readers of the log of events get it. The order of the texts is the order of the positions.
func (p position) String() string { return fmt.Sprintf("%016x%016x", p.major, p.number) }

// parsePosition is the reverse of String. A position has only one text.
func parsePosition(text string) (position, bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != positionBytes {
		return position{}, false
	}
	p, _ := positionOf(raw)
	return p, p.String() == text
}

// end returns the lowest key above all keys of a place and topic.
func end(where place, topic string) []byte {
	return append(append([]byte{byte(where)}, topic...), 1)
}

// state is the stored part of a topic except its messages.
type state struct {
	// number is the number of the newest message.
	number uint64
	// popped is the highest position that was taken from the buffer for delivery. After a
	// crash, the ready messages up to popped count as received.
	popped position
	// ready, delayed and dead are numbers of messages. Messages in flight count as ready.
	ready, delayed, dead uint64
}

const stateBytes = 6 * 8

func stateKey(topic string) []byte { return append([]byte{stateSpace}, topic...) }

func (s *state) encode() []byte {
	b := make([]byte, 0, stateBytes)
	for _, n := range [...]uint64{s.number, s.popped.major, s.popped.number, s.ready, s.delayed, s.dead} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func decodeState(b []byte) (state, error) {
	if len(b) != stateBytes {
		return state{}, fmt.Errorf("state of a topic has %d bytes, want %d", len(b), stateBytes)
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return state{at(0), position{at(1), at(2)}, at(3), at(4), at(5)}, nil
}

// count returns the counter of a place.
func (s *state) count(where place) *uint64 {
	switch where {
	case ready:
		return &s.ready
	case delayed:
		return &s.delayed
	case dead:
		return &s.dead
	case nowhere, logged:
	}
	return new(uint64)
}
