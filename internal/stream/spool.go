package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
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
	fs    vfs.FS
	dir   string
	limit int64
	enc   *zstd.Encoder
	dec   *zstd.Decoder

	// Stream.moving guards these fields. open is the file to which batches are appended, nil
	// before the first batch.
	open   vfs.File
	newest *spoolFile
	end    int64
	number uint64

	// Stream.mu guards these fields.
	batches []batch
	files   []*spoolFile
}

type spoolFile struct {
	name    string
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

func (p *spool) path(name string) string { return p.fs.PathJoin(p.dir, name) }

// write appends a batch of frames to the newest file and syncs the file. used is the size of all files.
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
	if p.open == nil {
		if err := p.create(); err != nil {
			return b, err
		}
	}
	_, err := p.open.Write(data)
	if err = errors.Join(err, p.open.Sync()); err != nil {
		// The end of the file may be damaged, so later batches are written to another file.
		err = errors.Join(fmt.Errorf("write the spool: %w", err), p.close())
		if p.end == 0 {
			err = errors.Join(err, p.fs.Remove(p.path(p.newest.name)))
		}
		return b, err
	}
	b.file, b.at = p.newest, p.end+headerLen
	p.end += int64(len(data))
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
	return disk.RoomFor(p.fs, p.dir, more) //nolint:wrapcheck // the text names the directory
}

func (p *spool) create() error {
	name := fmt.Sprintf("%016x%s", p.number, extension)
	f, err := p.fs.Create(p.path(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make a file of the spool: %w", err)
	}
	p.open, p.newest, p.end, p.number = f, &spoolFile{name: name}, 0, p.number+1
	if err := p.syncDir(); err != nil {
		return errors.Join(err, p.close(), p.fs.Remove(p.path(name)))
	}
	return nil
}

// syncDir brings the names of the files to the disk.
func (p *spool) syncDir() error {
	dir, err := p.fs.OpenDir(p.dir)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("sync the spool's directory: %w", err)
	}
	return nil
}

// close closes the newest file.
func (p *spool) close() error {
	if p.open == nil {
		return nil
	}
	err := p.open.Close()
	p.open = nil
	return err
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

// unused removes the files without a batch from the list, and returns their names. The caller
// holds mu and moving.
func (p *spool) unused() (names []string) {
	p.files = slices.DeleteFunc(p.files, func(f *spoolFile) bool {
		if f.batches > 0 {
			return false
		}
		names = append(names, f.name)
		return true
	})
	return names
}

// remove removes files from the disk.
func (p *spool) remove(names []string) error {
	var errs []error
	for _, name := range names {
		if p.open != nil && p.newest.name == name {
			errs = append(errs, p.close())
		}
		errs = append(errs, p.fs.Remove(p.path(name)))
	}
	if len(names) > 0 {
		errs = append(errs, p.syncDir()) // a power cut must not bring back a file that the logs no longer continue
	}
	if p.open != nil && p.end >= fileSize {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
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
	f, err := p.fs.Open(p.path(b.file.name))
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
		return nil, fmt.Errorf("%w: %s: %w", errUnreadable, b.file.name, err)
	}
	frames := make([]Frame, 0, b.count)
	for r := NewReader(bytes.NewReader(plain)); ; {
		frame, err := r.Next()
		if errors.Is(err, io.EOF) && len(frames) == int(b.count) {
			return frames, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errUnreadable, b.file.name, err)
		}
		frames = append(frames, frame)
	}
}

// errUnreadable means that a batch of the spool differs from the written one.
var errUnreadable = errors.New("read the spool")
