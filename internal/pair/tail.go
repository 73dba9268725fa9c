package pair

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk"
	"fanfare/internal/stream"
)

const (
	tailExtension = ".tail"
	// tailCopy is the name of a copy of a file until the copy is on the disk.
	tailCopy = "copy"
	// tailSize is the default of StandbyConfig.TailSize.
	tailSize = 64 << 20
)

// tail is the part of the stream that the standby keeps on its disk, because its stores have it only
// without a sync. Each write begins with an opener: the last safe point before the write, without a time.
//
// After a write or a sync that failed, the system may have dropped bytes which it still shows to readers, and a later sync
// succeeds without these bytes. So the next file begins after an error and after a start, and before it a copy takes the place of the newest
// file: no file but the newest one has bytes that are not on the disk (P2).
//
// One goroutine appends to the tail, and another one reads it.
type tail struct {
	fs       vfs.FS
	dir      string
	fileSize int64 // the size at which the next file begins

	// The appending goroutine uses these fields. The positions are of the frames that are on the disk.
	open      vfs.File        // the file with the number next-1, or the file next without a frame on the disk; nil for neither
	pending   []stream.Frame  // not on the disk yet
	have      reach           // of the frames that are on the disk
	ahead     reach           // of all frames
	cut       stream.Position // of the last cut of each store
	announced stream.Position // the last safe point
	start     stream.Position // before the first frame of a log
	started   bool            // there is such a frame
	fresh     bool            // no frame of the open file is on the disk
	torn      bool            // the newest file may have bytes behind its frames
	unproven  bool            // no sync has succeeded since the last failure
	buf       []byte
	bufSum    uint32 // of the newest file with buf

	listing sync.Mutex // held for a change of the list
	listed  uint64     // the number behind the last file in the list, 0 without a list

	length atomic.Int64 // the bytes on the disk, and the removed bytes

	mu      sync.Mutex
	files   []tailFile      // all have frames on the disk, or are from an earlier process
	synced  stream.Position // behind the last frame that is on the disk
	changed chan struct{}   // closed at the next change of a length
	next    uint64          // the number of the next file
}

// tailFile is a file of the tail.
type tailFile struct {
	number uint64
	tailContent
	begun [stream.Table + 1]uint64 // the newest log of a store that begins in the file, 0 for none
}

// openTail opens the tail in a directory. All of its frames are on the disk then.
func openTail(files vfs.FS, dir string, fileSize int64) (*tail, error) {
	if err := disk.MakeDir(files, dir); err != nil {
		return nil, fmt.Errorf("make the directory of the tail %s: %w", dir, err)
	}
	t := &tail{fs: files, dir: dir, fileSize: fileSize, changed: make(chan struct{})}
	names, err := files.List(dir)
	if err != nil {
		return nil, fmt.Errorf("read the tail %s: %w", dir, err)
	}
	for _, name := range names {
		digits, is := strings.CutSuffix(name, tailExtension)
		if number, err := strconv.ParseUint(digits, 16, 64); is && err == nil {
			t.files = append(t.files, tailFile{number: number})
		}
	}
	slices.SortFunc(t.files, func(a, b tailFile) int { return int(a.number) - int(b.number) })
	t.have.free = [...]bool{true, true, true}
	for i := range t.files {
		if err := t.scan(&t.files[i], i == len(t.files)-1); err != nil {
			return nil, fmt.Errorf("read the tail %s: %w", t.path(t.files[i].number), err)
		}
		t.next = t.files[i].number + 1
	}
	t.have.free = [...]bool{false, false, false}
	t.synced, t.ahead = t.have.at, t.have
	if err := t.checkList(); err != nil {
		return nil, err
	}
	if len(t.files) > 0 { // the process that wrote it may have ended before its sync, or after one that failed
		return t, t.replaceNewest()
	}
	return t, nil
}

func (t *tail) path(number uint64) string {
	return t.fs.PathJoin(t.dir, fmt.Sprintf("%016x%s", number, tailExtension))
}

// scan reads the frames of a file. The newest file may end with a part of a frame.
func (t *tail) scan(file *tailFile, newest bool) (err error) {
	f, err := t.fs.Open(t.path(file.number))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
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
		file.add(len(t.buf), file.with(t.buf))
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

// replaceNewest makes a copy of the newest file that has nothing but its frames, and that is on the disk.
func (t *tail) replaceNewest() error {
	t.mu.Lock()
	newest := t.files[len(t.files)-1]
	t.mu.Unlock()
	to := t.fs.PathJoin(t.dir, tailCopy)
	err := copySynced(t.fs, t.path(newest.number), to, newest.Bytes)
	if err == nil {
		err = t.fs.Rename(to, t.path(newest.number)) // a reader keeps the replaced file open, which has the same frames
	}
	if err == nil {
		err = t.syncDir()
	}
	if err != nil {
		return fmt.Errorf("copy the newest file of the tail: %w", err)
	}
	t.torn = false
	return nil
}

// copySynced copies the first bytes of a file.
func copySynced(files vfs.FS, from, to string, size int64) (err error) {
	source, err := files.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	f, err := files.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, source, size)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, files.Remove(to)) // a disk that is full needs the room
	}
	return nil
}

func (t *tail) syncDir() error {
	dir, err := t.fs.OpenDir(t.dir)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("sync the directory of the tail: %w", err)
	}
	return nil
}

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

// begin begins the next file.
func (t *tail) begin() error {
	if t.torn {
		if err := t.replaceNewest(); err != nil {
			return err
		}
	}
	// An earlier try may have left the file.
	if err := t.fs.Remove(t.path(t.next)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a file of the tail: %w", err)
	}
	f, err := t.fs.Create(t.path(t.next), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make a file of the tail: %w", err)
	}
	if err := t.syncDir(); err != nil {
		return errors.Join(err, f.Close())
	}
	t.open, t.fresh = f, true
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
	size := t.wrote()
	if err := t.enlist(); err != nil {
		return stream.Position{}, err
	}
	t.unproven = false
	if size >= t.fileSize {
		return t.have.at, t.close()
	}
	return t.have.at, nil
}

// write writes the pending frames to the open file, or to the next one.
func (t *tail) write() error {
	if t.open == nil {
		if err := t.begin(); err != nil {
			return err
		}
	}
	t.buf = stream.Append(t.buf[:0], stream.SafeAt(t.announced, 0))
	for _, f := range t.pending {
		t.buf = stream.Append(t.buf, f)
	}
	t.bufSum = t.newest().with(t.buf) // before the write, because a file system may change buf
	_, err := t.open.Write(t.buf)
	if err == nil {
		err = t.open.SyncData()
	}
	if err != nil {
		t.torn = !t.fresh
		return errors.Join(fmt.Errorf("write the tail: %w", err), t.close())
	}
	return nil
}

// wrote notes that the pending frames are on the disk. It returns the size of their file.
func (t *tail) wrote() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fresh {
		t.files, t.fresh = append(t.files, tailFile{number: t.next}), false
		t.next++
	}
	file := &t.files[len(t.files)-1]
	for _, f := range t.pending {
		_ = t.note(file, f) // append has found no hole
	}
	t.forget()
	file.add(len(t.buf), t.bufSum)
	t.length.Add(int64(len(t.buf)))
	t.synced = t.have.at
	close(t.changed)
	t.changed = make(chan struct{})
	return file.Bytes
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

// close closes the newest file.
func (t *tail) close() error {
	if t.open == nil {
		return nil
	}
	err := t.open.Close()
	t.open = nil
	return err
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
