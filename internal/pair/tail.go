package pair

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/stream"
)

const (
	tailExtension = ".tail"
	// tailSize is the default of StandbyConfig.TailSize.
	tailSize = 64 << 20
)

// tail is the part of the stream that the standby keeps on its disk, because its stores have it only
// without a sync. Each write begins with an opener: the last safe point before the write, without a time. No file but the newest one has
// bytes that are not on the disk (P2), so only the newest file may end with a part of a write.
//
// One goroutine appends to the tail, and another one reads it.
type tail struct {
	// The appending goroutine uses these fields. The positions are of the frames that are on the disk.
	disk      stream.Files
	pending   []stream.Frame  // not on the disk yet
	have      reach           // of the frames that are on the disk
	ahead     reach           // of all frames
	cut       stream.Position // of the last cut of each store
	announced stream.Position // the last safe point
	start     stream.Position // before the first frame of a log
	started   bool            // there is such a frame
	unproven  bool            // no sync has succeeded since the last failure
	buf       []byte

	listing sync.Mutex // held for a change of the list
	listed  uint64     // the number behind the last file in the list, 0 without a list

	length atomic.Int64 // the bytes on the disk, and the removed bytes

	mu      sync.Mutex
	files   []tailFile      // all have frames on the disk, or are from an earlier process
	synced  stream.Position // behind the last frame that is on the disk
	changed chan struct{}   // closed at the next change of a length
}

// tailFile is a file of the tail.
type tailFile struct {
	number uint64
	stream.Content
	begun [stream.Table + 1]uint64 // the newest log of a store that begins in the file, 0 for none
}

// openTail opens the tail in a directory. All of its frames are on the disk then.
func openTail(files vfs.FS, dir string, fileSize int64) (*tail, error) {
	t := &tail{disk: stream.Files{FS: files, Dir: dir, Extension: tailExtension, Size: fileSize}, changed: make(chan struct{})}
	t.have.free = [...]bool{true, true, true}
	if err := t.disk.Load(t.scan); err != nil {
		return nil, fmt.Errorf("open the tail: %w", err)
	}
	t.have.free = [...]bool{false, false, false}
	t.synced, t.ahead = t.have.at, t.have
	if err := t.checkList(); err != nil {
		return nil, err
	}
	if n := len(t.files); n > 0 { // the process that wrote it may have ended before its sync, or after one that failed
		return t, t.disk.Renew(t.files[n-1].Content)
	}
	return t, nil
}

// scan reads the frames of a file. The newest file may end with a part of a frame.
func (t *tail) scan(number uint64, f vfs.File, newest bool) error {
	t.files = append(t.files, tailFile{number: number})
	file := &t.files[len(t.files)-1]
	for r := stream.NewReader(bufio.NewReaderSize(f, 1<<20)); ; {
		frame, err := r.Next()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case newest && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, stream.ErrDamaged)):
			return wholeBefore(f, file.Bytes, err)
		default:
			return damagedAt(file.Bytes, err)
		}
		if err := t.note(file, frame); err != nil {
			return damagedAt(file.Bytes, err)
		}
		t.buf = stream.Append(t.buf[:0], frame)
		file.Content = file.With(t.buf)
		t.length.Add(int64(len(t.buf)))
	}
}

// wholeBefore returns ErrDamagedCopy if a file has an opener behind its damage. The damage is then in frames that the standby has
// confirmed, so a start must not take it for the end of the tail.
func wholeBefore(f vfs.File, damage int64, why error) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	length := stream.Append(nil, stream.SafeAt(stream.Position{}, 0))[:4] // of an opener; a frame begins with its length
	rest, err := io.ReadAll(io.NewSectionReader(f, damage, info.Size()-damage))
	for len(rest) > 0 && err == nil {
		if frame, bad := stream.NewReader(bytes.NewReader(rest)).Next(); bad == nil && isOpener(frame) {
			return damagedAt(damage, why)
		}
		next := bytes.Index(rest[1:], length)
		if next < 0 {
			break
		}
		rest = rest[1+next:]
	}
	return err
}

func damagedAt(damage int64, why error) error {
	return fmt.Errorf("%w: at %d: %w", ErrDamagedCopy, damage, why)
}

// isOpener reports whether a frame begins a write to the tail. All frames before the opener were on the disk by then.
func isOpener(f stream.Frame) bool { return f.Kind == stream.Safe && f.Time == 0 }

// note counts a frame. It returns an error for a hole before the frame.
func (t *tail) note(file *tailFile, f stream.Frame) error {
	if f.Kind == stream.Safe {
		t.announced = most(t.announced, f.Position())
		if t.have.at == (stream.Position{}) {
			t.have.at = f.Position() // a tail after a switch begins at the end of the logs
		}
		return nil
	}
	if !t.started {
		t.start, t.started = t.have.at, true
	}
	if f.Kind == stream.Begins {
		file.begun[f.Store] = f.Log
	}
	if f.Kind == stream.Cut {
		t.cut = t.cut.With(f.Store, f.End())
	}
	return t.have.take(f)
}

// append takes frames. They are on the disk when sync returns. It returns an error for a hole before a frame, which the primary sends again in
// the next session.
func (t *tail) append(frames ...stream.Frame) error {
	for _, f := range frames {
		if err := t.ahead.take(f); err != nil {
			return err
		}
		t.pending = append(t.pending, f)
	}
	return nil
}

// sync brings all frames to the disk, and returns the position up to which the tail has the stream without a hole (P2). After a failure the disk has to take a write
// before the next confirmation: a standby whose disk is full is away, although no frame has arrived.
func (t *tail) sync() (stream.Position, error) {
	if len(t.pending) == 0 && !t.unproven {
		return t.have.at, nil
	}
	t.unproven = true
	if err := t.write(); err != nil {
		return stream.Position{}, err
	}
	if err := t.enlist(); err != nil {
		return stream.Position{}, err
	}
	t.unproven = false
	return t.have.at, nil
}

// write brings the pending frames to the disk.
func (t *tail) write() error {
	t.buf = stream.Append(t.buf[:0], stream.SafeAt(t.announced, 0))
	for _, f := range t.pending {
		t.buf = stream.Append(t.buf, f)
	}
	number, content, err := t.disk.Append(t.buf)
	if err != nil {
		return fmt.Errorf("write the tail: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.files); n == 0 || t.files[n-1].number != number {
		t.files = append(t.files, tailFile{number: number})
	}
	file := &t.files[len(t.files)-1]
	for _, f := range t.pending {
		_ = t.note(file, f) // append has found no hole
	}
	t.forget()
	file.Content = content
	t.length.Add(int64(len(t.buf)))
	t.synced = t.have.at
	close(t.changed)
	t.changed = make(chan struct{})
	return nil
}

// forget forgets the pending frames.
func (t *tail) forget() {
	clear(t.pending)
	t.pending, t.ahead = t.pending[:0], t.have
}

// drop forgets the frames that are not on the disk, which the primary sends again in the next session. A safe point that it has announced
// stays, as far as the tail has the stream, without the bytes behind a cut, which the primary has lost (P9).
func (t *tail) drop() {
	end := t.counts()
	for _, f := range t.pending {
		if f.Kind == stream.Cut && f.Log == end.Of(f.Store).Log {
			end = least(end, end.With(f.Store, f.End()))
		}
		if f.Kind == stream.Safe {
			t.announced = most(t.announced, least(f.Position(), end))
		}
	}
	t.forget()
}

// end returns the position behind the last frame that is on the disk.
func (t *tail) end() stream.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.synced
}

// counts returns the position behind the last byte that counts: a cut is before bytes that the primary has lost. The appending goroutine calls
// counts.
func (t *tail) counts() stream.Position {
	end := t.have.at
	for store := stream.Queue; store <= stream.Table; store++ {
		if cut := t.cut.Of(store); cut.Log == end.Of(store).Log {
			end = end.With(store, cut)
		}
	}
	return end
}

// safe returns the last safe point.
func (t *tail) safe() stream.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.announced
}
