package follow

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
)

// parser parses a log whose bytes arrive in pieces. Pebble's reader reads blocks of 32 KiB, so
// the records of a block are applied when the block is whole, or at the end of the log. The reader runs as a
// coroutine of the caller: it stops where it needs more bytes.
type parser struct {
	next    func() (error, bool)
	stop    func()
	pending []byte
	over    bool   // no bytes follow
	done    bool   // the reader met the end of the log
	torn    bool   // the log ends without its end mark, as after a crash
	applied uint64 // behind the last record that was applied
}

func newParser(log uint64, apply func(repr []byte) error) *parser {
	p := &parser{}
	p.next, p.stop = iter.Pull(func(yield func(error) bool) {
		err := p.run(newReader(record.NewReader, &source{p, yield}, log), apply)
		p.done = true
		yield(err)
	})
	return p
}

// newReader names Pebble's type of log numbers, which is internal, by what NewReader takes.
func newReader[N ~uint64](reader func(io.Reader, N) *record.Reader, from io.Reader, log uint64) *record.Reader {
	return reader(from, N(log))
}

func (p *parser) feed(data []byte) error {
	if p.done {
		return fmt.Errorf("%w: bytes behind its last record", ErrDamaged)
	}
	p.pending = data
	err, _ := p.next()
	return err
}

// end applies the records of the last block. A part of a record at the end was never answered.
func (p *parser) end() error {
	defer p.stop()
	if p.done {
		return nil
	}
	p.over = true
	err, _ := p.next()
	return err
}

func (p *parser) run(records *record.Reader, apply func(repr []byte) error) error {
	for {
		repr, err := nextRecord(records)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, record.ErrUnexpectedEOF):
			p.torn = true
			return nil
		case err != nil:
			return err
		}
		if err := apply(repr); err != nil {
			return err
		}
		p.applied = uint64(records.Offset())
	}
}

// nextRecord returns the next record of a log, io.EOF after the last one, and record.ErrUnexpectedEOF if only
// a part of a record follows.
func nextRecord(records *record.Reader) ([]byte, error) {
	var repr []byte
	r, err := records.Next()
	if err == nil {
		repr, err = io.ReadAll(r)
	}
	if errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrZeroedChunk) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return repr, err
}

// source gives the reader the bytes that were fed.
type source struct {
	*parser
	yield func(error) bool
}

func (s *source) Read(dst []byte) (int, error) {
	for len(s.pending) == 0 {
		if s.over {
			return 0, io.EOF
		}
		if !s.yield(nil) {
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(dst, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// apply applies a batch to a store. Pebble panics if it gets a batch that only belongs in its own log.
func apply(db *pebble.DB, repr []byte) error {
	header, whole := batchrepr.ReadHeader(repr)
	if !whole {
		return fmt.Errorf("%w: a record of %d bytes", ErrDamaged, len(repr))
	}
	entries := uint32(0)
	for entriesOf := batchrepr.Read(repr); ; entries++ {
		kind, _, _, more, err := entriesOf.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if !more {
			break
		}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete:
		case pebble.InternalKeyKindLogData: // it is not counted, and changes nothing
			entries--
		default:
			return fmt.Errorf("%w: kind %d", ErrUnknownBatch, kind)
		}
	}
	if entries != header.Count {
		return fmt.Errorf("%w: a batch of %d entries has %d", ErrDamaged, header.Count, entries)
	}
	if entries == 0 {
		return nil
	}
	clear(repr[:batchrepr.HeaderLen-4]) // the store gives the batch a sequence number of its own
	batch := db.NewBatch()
	if err := batch.SetRepr(repr); err != nil {
		return errors.Join(err, batch.Close())
	}
	return errors.Join(db.Apply(batch, pebble.NoSync), batch.Close())
}
