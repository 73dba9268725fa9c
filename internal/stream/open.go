package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/zap"

	"fanfare/internal/disk"
)

// Config is the configuration of a stream.
type Config struct {
	// FS is the file system; the operating system's file system if nil.
	FS vfs.FS
	// Dir is the directory of the spool. No other stream uses it.
	Dir string
	// Spool is the maximum size of the spool on the disk, FANFARE_STREAM_SPOOL.
	Spool int64
	// Keep means that a new receiver keeps its frames, see Receiver.Keep.
	Keep bool
	Log  *zap.Logger
	// Now is the clock of the frames' times; time.Now if nil.
	Now func() time.Time
}

// Open opens the stream, with the frames that the spool has. from is the position of the slowest receiver, which
// has all frames before from. Before the caller opens the stores, it calls Receive for each receiver, because the
// stream keeps no frames without a receiver. Then it adds the logs of the stores from End on (S7).
func Open(config Config, from Position) (*Stream, error) {
	if config.FS == nil {
		config.FS = vfs.Default
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*(batchSize+MaxData)))
	if err != nil {
		return nil, err
	}
	s := &Stream{
		now: config.Now, log: config.Log, keep: config.Keep, kicked: make(chan struct{}, 1), changed: make(chan struct{}), receivers: map[*Receiver]bool{},
		spool: spool{disk: Files{FS: config.FS, Dir: config.Dir, Extension: extension, Size: fileSize}, limit: config.Spool, enc: enc, dec: dec},
	}
	if err := s.spool.disk.Load(s.spool.load); err != nil {
		return nil, fmt.Errorf("read the spool: %w", err)
	}
	for i := range s.spool.batches {
		s.spool.batches[i].since = s.now()
	}
	s.begin = from
	if n := len(s.spool.batches); n > 0 && !from.Covers(s.spool.batches[n-1].end) {
		s.begin, s.first = s.spool.batches[n-1].end, s.spool.batches[n-1].behind()
	} else {
		s.spool.trim(s.spool.next())
	}
	s.safe, s.safeAt, s.end, s.synced = s.first, s.begin, s.begin, s.begin
	return s, s.spool.remove(s.spool.unused())
}

// Add adds a frame of a log that an earlier process wrote and synced.
func (s *Stream) Add(f Frame) {
	s.mu.Lock()
	s.add(f)
	s.read = s.first + uint64(len(s.frames))
	s.sync(f.Store, f.End())
	upto, full := s.safe, s.size > spoolAbove
	s.mu.Unlock()
	if full {
		s.move(upto)
	}
}

// Close moves the frames that a receiver needs to the spool, and closes it. The spool keeps its frames for the next process. A frame
// that the next process reads from the logs instead has the time of its start.
func (s *Stream) Close() error {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	upto := s.safe
	s.mu.Unlock()
	for more := true; more; {
		var err error
		if more, err = s.moveSome(upto); err != nil {
			s.log.Warn("the spool does not take the last frames: the next start reads them from the logs, without their times", zap.Error(err))
		}
	}
	s.spool.dec.Close()
	return s.spool.disk.Close()
}

// load reads the headers of the batches of a file. Frames are numbered from 0.
func (p *spool) load(number uint64, f vfs.File, _ bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	file := &spoolFile{number: number}
	p.files = append(p.files, file)
	begin := len(p.batches)
	for at := int64(0); at+headerLen <= info.Size(); {
		header := make([]byte, headerLen)
		if _, err := f.ReadAt(header, at); err != nil {
			return err
		}
		b, sound, err := parseHeader(header)
		if err != nil {
			return err
		}
		// A crash leaves a part of a batch at the end of a file.
		if !sound || at+headerLen+int64(b.length) > info.Size() {
			break
		}
		b.file, b.at = file, at+headerLen
		if n := len(p.batches); n > 0 && p.batches[n-1].end != b.begin {
			p.trim(p.next()) // frames between the two batches were dropped
		}
		b.first = p.next()
		p.add(b)
		at += headerLen + int64(b.length)
	}
	return p.checkLast(file, begin)
}

// checkLast drops the last batch of a file if a power cut has left only a part of it: each batch before was synced before the next one was
// written. The sum of its header does not cover the frames. The logs still have all frames of a batch that was not synced.
func (p *spool) checkLast(file *spoolFile, begin int) error {
	n := len(p.batches) - 1
	if n < begin || file.batches == 0 {
		return nil
	}
	_, err := p.read(p.batches[n])
	if !errors.Is(err, errUnreadable) || errors.Is(err, ErrUnknownKind) {
		return err
	}
	file.batches--
	p.batches = p.batches[:n]
	return nil
}

// next returns the number after the last frame of the last batch.
func (p *spool) next() uint64 {
	if n := len(p.batches); n > 0 {
		return p.batches[n-1].behind()
	}
	return 0
}

// putHeader fills the header of a batch.
func (b batch) putHeader(dst []byte) {
	copy(dst, magic)
	binary.LittleEndian.PutUint32(dst[4:], Format)
	binary.LittleEndian.PutUint32(dst[12:], b.length)
	count := b.count
	if b.inside {
		count |= insideBit
	}
	binary.LittleEndian.PutUint32(dst[16:], count)
	b.end.Append(b.begin.Append(dst[:20]))
	binary.LittleEndian.PutUint32(dst[8:], checksum(dst[12:headerLen]))
}

// parseHeader returns the batch of a header. A header that is not sound was written only in part.
func parseHeader(header []byte) (b batch, sound bool, err error) {
	format := binary.LittleEndian.Uint32(header[4:])
	if string(header[:4]) != magic || binary.LittleEndian.Uint32(header[8:]) != checksum(header[12:]) {
		return b, false, nil
	}
	if err := disk.CheckFormat("the spool", strconv.FormatUint(uint64(format), 10), Format); err != nil {
		return b, false, err
	}
	b.length, b.count = binary.LittleEndian.Uint32(header[12:]), binary.LittleEndian.Uint32(header[16:])
	b.count, b.inside = b.count&^insideBit, b.count&insideBit != 0
	b.begin, b.end = ParsePosition(header[20:]), ParsePosition(header[20+PositionLen:])
	return b, true, nil
}
