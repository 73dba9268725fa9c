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
	// tailSize is the default of StandbyConfig.TailSize.
	tailSize = 64 << 20
)

// tail is the part of the stream that the standby keeps on its disk, because its stores have it only
// without a sync. Each write begins with a mark, which is the last safe point before the write, without a time.
//
// One goroutine appends to the tail, and another one reads it.
type tail struct {
	fs       vfs.FS
	dir      string
	fileSize int64 // the size at which the next file begins

	// The appending goroutine uses these fields.
	open      vfs.File
	position  stream.Position // behind the last frame
	announced stream.Position // the last safe point
	start     stream.Position // before the first frame of a log
	started   bool            // there is such a frame
	buf       []byte
	unproven  bool // no sync has succeeded since the newest file began

	length atomic.Int64 // the bytes on the disk, and the removed bytes

	mu      sync.Mutex
	files   []tailFile
	synced  stream.Position // behind the last frame that is on the disk
	changed chan struct{}   // closed at the next change of a length
	next    uint64          // the number of the next file
}

// tailFile is a file of the tail.
type tailFile struct {
	number uint64
	size   int64                    // of the frames that are on the disk
	begun  [stream.Table + 1]uint64 // the newest log of a store that begins in the file, 0 for none
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
	for i := range t.files {
		if err := t.scan(&t.files[i]); err != nil {
			return nil, fmt.Errorf("read the tail %s: %w", t.path(t.files[i].number), err)
		}
		t.next = t.files[i].number + 1
	}
	t.synced = t.position
	return t, nil
}

func (t *tail) path(number uint64) string {
	return t.fs.PathJoin(t.dir, fmt.Sprintf("%016x%s", number, tailExtension))
}

// scan syncs a file and reads its frames. A crash leaves a part of a frame at the end of a file.
func (t *tail) scan(file *tailFile) (err error) {
	f, err := t.fs.OpenReadWrite(t.path(file.number), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// The process that wrote the frames may have ended before its sync (P2).
	if err := f.Sync(); err != nil {
		return err
	}
	for r := stream.NewReader(bufio.NewReaderSize(f, 1<<20)); ; {
		frame, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, stream.ErrDamaged) {
			return wholeBefore(f, file.size, err)
		}
		if err != nil {
			return err
		}
		t.note(file, frame)
		file.size += int64(frame.Len())
		t.length.Add(int64(frame.Len()))
	}
}

// wholeBefore returns ErrDamagedCopy if a file has a mark behind its damage. The damage is then in frames that the standby has
// confirmed, so a start must not take it for the end of the tail.
func wholeBefore(f vfs.File, damage int64, why error) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	length := stream.Append(nil, stream.SafeAt(stream.Position{}, 0))[:4] // of a mark; a frame begins with its length
	rest, err := io.ReadAll(io.NewSectionReader(f, damage, info.Size()-damage))
	for len(rest) > 0 && err == nil {
		if frame, bad := stream.NewReader(bytes.NewReader(rest)).Next(); bad == nil && isMark(frame) {
			return fmt.Errorf("%w: at %d: %w", ErrDamagedCopy, damage, why)
		}
		next := bytes.Index(rest[1:], length)
		if next < 0 {
			break
		}
		rest = rest[1+next:]
	}
	return err
}

// isMark reports whether a frame begins a write to the tail. All frames before the mark were on the disk by then.
func isMark(f stream.Frame) bool { return f.Kind == stream.Safe && f.Time == 0 }

// note counts a frame.
func (t *tail) note(file *tailFile, f stream.Frame) {
	if f.Kind == stream.Safe {
		t.announced = most(t.announced, f.Position())
		if t.position == (stream.Position{}) {
			t.position = f.Position() // a tail after a switch begins at the end of the logs
		}
		return
	}
	if !t.started {
		t.start, t.started = t.position, true
	}
	if f.Kind == stream.Begins {
		file.begun[f.Store] = f.Log
	}
	t.position = t.position.After(f)
}

// append writes frames. They are on the disk when sync returns.
func (t *tail) append(frames ...stream.Frame) error {
	if t.open == nil {
		if err := t.begin(); err != nil {
			return err
		}
	}
	if len(t.buf) == 0 {
		t.buf = stream.Append(t.buf, stream.SafeAt(t.announced, 0))
	}
	t.mu.Lock()
	file := &t.files[len(t.files)-1]
	for _, f := range frames {
		t.buf = stream.Append(t.buf, f)
		t.note(file, f)
	}
	t.mu.Unlock()
	return nil
}

// begin begins the next file.
func (t *tail) begin() error {
	t.unproven = true
	f, err := t.fs.Create(t.path(t.next), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make a file of the tail: %w", err)
	}
	dir, err := t.fs.OpenDir(t.dir)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("sync the directory of the tail: %w", err), f.Close())
	}
	t.mu.Lock()
	t.files, t.open = append(t.files, tailFile{number: t.next}), f
	t.next++
	t.mu.Unlock()
	return nil
}

// sync brings all frames to the disk, and returns the position behind them (P2). After a failure the disk has to take a write
// before the next confirmation: a standby whose disk is full is away, although no frame has arrived.
func (t *tail) sync() (stream.Position, error) {
	if t.open == nil && t.unproven {
		if err := t.append(); err != nil {
			return stream.Position{}, err
		}
	}
	if len(t.buf) == 0 {
		return t.position, nil
	}
	_, err := t.open.Write(t.buf)
	if err == nil {
		err = t.open.SyncData()
	}
	if err != nil {
		return stream.Position{}, errors.Join(fmt.Errorf("write the tail: %w", err), t.drop())
	}
	t.unproven = false
	t.mu.Lock()
	file := &t.files[len(t.files)-1]
	file.size += int64(len(t.buf))
	t.length.Add(int64(len(t.buf)))
	t.buf = t.buf[:0]
	t.synced = t.position
	full := file.size >= t.fileSize
	close(t.changed)
	t.changed = make(chan struct{})
	t.mu.Unlock()
	if full {
		return t.position, t.close()
	}
	return t.position, nil
}

// drop drops the frames since the last sync, because the primary sends them again. The file may have a part of them, as after a
// crash, so no frame may follow in this file.
func (t *tail) drop() error {
	t.mu.Lock()
	t.position, t.buf, t.unproven = t.synced, t.buf[:0], true
	if last := len(t.files) - 1; t.files[last].size == 0 { // the next file takes its place
		t.next = t.files[last].number
		t.files = t.files[:last]
	}
	t.mu.Unlock()
	return t.close()
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

// trim removes the files before the first one in which a log begins that is not wholly applied. applied is the place of
// the applied frames, which the stores have synced.
func (t *tail) trim(upto uint64) error {
	for {
		t.mu.Lock()
		if t.files[0].number >= upto {
			t.mu.Unlock()
			return nil
		}
		number := t.files[0].number
		t.files = t.files[1:]
		t.mu.Unlock()
		if err := t.fs.Remove(t.path(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a file of the tail: %w", err)
		}
	}
}

// needed returns the number of the first file that a start needs, if the stores have synced all before a position.
func (t *tail) needed(applied stream.Position) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.files[len(t.files)-1].number
	for store := stream.Queue; store <= stream.Table; store++ {
		at := t.files[0].number
		for _, f := range t.files {
			if f.begun[store] > 0 && f.begun[store] <= applied.Of(store).Log {
				at = f.number // the newest log that is applied, or is being applied, begins here
			}
		}
		first = min(first, at)
	}
	return first
}

// end returns the position behind the last frame that is on the disk.
func (t *tail) end() stream.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.synced
}

// safe returns the last safe point.
func (t *tail) safe() stream.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.announced
}

// before reports whether there is a file before a number.
func (t *tail) before(number uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files[0].number < number
}
