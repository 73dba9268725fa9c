package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"fanfare/internal/disk"
)

const (
	// batchSize is the size at which a batch of frames is written to the spool.
	batchSize = 1 << 20
	// fileSize is the size at which the spool begins its next file. A file is removed when no
	// receiver needs its frames.
	fileSize  = 16 << 20
	extension = ".spool"
	// leastSize is the size that the spool may have on a disk that is nearly full.
	leastSize = ringSize
	// A batch in a file has a header and the compressed frames. The header has magic, format u32, checksum of the
	// rest of the header u32, length of the compressed frames u32, number of frames u32 with insideBit, and the positions before
	// and after the frames.
	magic     = "FFSP"
	headerLen = 20 + 2*PositionLen
	insideBit = 1 << 31
)

// spool keeps frames on the disk for receivers that do not have them yet (S5). It has only frames
// before the safe point. So after a crash, the logs have everything that the spool has.
type spool struct {
	limit int64
	enc   *zstd.Encoder
	dec   *zstd.Decoder

	// Stream.moving guards these fields.
	disk   Files
	newest *spoolFile // has the newest batch of this process

	// Stream.mu guards these fields.
	batches []batch
	files   []*spoolFile
}

type spoolFile struct {
	number  uint64
	size    int64
	batches int // number of batches in spool.batches
}

// batch is a piece of a spool file.
type batch struct {
	file       *spoolFile
	at         int64 // the offset of the compressed frames
	length     uint32
	count      uint32
	first      uint64 // the number of the first frame
	begin, end Position
	inside     bool      // the end is inside what a start has read from the logs
	since      time.Time // of the first frame, or the time at which the stream was opened
}

func (b batch) behind() uint64 { return b.first + uint64(b.count) }

// write brings a batch of frames to the disk. used is the size of all files.
func (p *spool) write(b batch, frames []Frame, used int64) (batch, error) {
	var plain []byte
	b.count, b.end, b.since = uint32(len(frames)), b.begin, time.UnixMilli(frames[0].Time)
	for _, f := range frames {
		plain, b.end = Append(plain, f), b.end.After(f)
	}
	data := p.enc.EncodeAll(plain, make([]byte, headerLen, headerLen+len(plain)/4))
	b.length = uint32(len(data) - headerLen)
	b.putHeader(data)
	if err := p.room(used, int64(len(data))); err != nil {
		return b, err
	}
	number, content, err := p.disk.Append(data)
	if err != nil {
		return b, fmt.Errorf("write the spool: %w", err)
	}
	if p.newest == nil || p.newest.number != number {
		p.newest = &spoolFile{number: number}
	}
	b.file, b.at = p.newest, content.Bytes-int64(b.length)
	return b, nil
}

// room returns an error if more bytes would exceed the limit, or leastSize on a disk that is nearly full.
func (p *spool) room(used, more int64) error {
	if used+more > p.limit {
		return fmt.Errorf("the spool has its %d bytes: receive the stream, or raise FANFARE_STREAM_SPOOL", p.limit)
	}
	if used+more <= leastSize {
		return nil
	}
	return disk.RoomFor(p.disk.FS, p.disk.Dir, more) //nolint:wrapcheck // the text names the directory
}

// add adds a batch that receivers can read. The caller holds mu.
func (p *spool) add(b batch) {
	if b.file.batches == 0 && !slices.Contains(p.files, b.file) {
		p.files = append(p.files, b.file)
	}
	b.file.batches++
	b.file.size = b.at + int64(b.length)
	p.batches = append(p.batches, b)
}

// used returns the size of all files. The caller holds mu.
func (p *spool) used() (bytes int64) {
	for _, f := range p.files {
		bytes += f.size
	}
	return bytes
}

// trim removes the batches before the frame needed from the list. It reports whether a file has no batch
// left. The caller holds mu.
func (p *spool) trim(needed uint64) (file bool) {
	for len(p.batches) > 0 && p.batches[0].behind() <= needed {
		p.batches[0].file.batches--
		file = file || p.batches[0].file.batches == 0
		p.batches = p.batches[1:]
	}
	return file
}

// unused removes the files without a batch from the list, and returns their numbers. The caller
// holds mu and moving.
func (p *spool) unused() (numbers []uint64) {
	p.files = slices.DeleteFunc(p.files, func(f *spoolFile) bool {
		if f.batches > 0 {
			return false
		}
		numbers = append(numbers, f.number)
		return true
	})
	return numbers
}

// remove removes files from the disk. A power cut must not bring back a file that the logs no longer continue.
func (p *spool) remove(numbers []uint64) (err error) {
	if p.newest != nil && slices.Contains(numbers, p.newest.number) {
		err = p.disk.forget()
	}
	return errors.Join(err, p.disk.Remove(numbers...))
}

// find returns the batch that has a frame of the spool. The caller holds mu.
func (p *spool) find(frame uint64) batch {
	i, _ := slices.BinarySearchFunc(p.batches, frame, func(b batch, n uint64) int {
		if b.behind() <= n {
			return -1
		}
		return 1
	})
	return p.batches[i]
}

// read returns the frames of a batch. If no receiver needs the file any longer, the file may be
// removed during the read.
func (p *spool) read(b batch) ([]Frame, error) {
	f, err := p.disk.FS.Open(p.disk.Path(b.file.number))
	if err != nil {
		return nil, fmt.Errorf("read the spool: %w", err)
	}
	data := make([]byte, b.length)
	_, err = f.ReadAt(data, b.at)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read the spool: %w", err)
	}
	plain, err := p.dec.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errUnreadable, p.disk.Path(b.file.number), err)
	}
	frames := make([]Frame, 0, b.count)
	for r := NewReader(bytes.NewReader(plain)); ; {
		frame, err := r.Next()
		if errors.Is(err, io.EOF) && len(frames) == int(b.count) {
			return frames, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errUnreadable, p.disk.Path(b.file.number), err)
		}
		frames = append(frames, frame)
	}
}

// errUnreadable means that a batch of the spool differs from the written one.
var errUnreadable = errors.New("read the spool")
