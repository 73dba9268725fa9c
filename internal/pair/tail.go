package pair

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
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
// without a sync. Each file begins with the safe point that was the last one before the file.
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
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, stream.ErrDamaged) {
			return nil
		}
		if err != nil {
			return err
		}
		t.note(file, frame)
		file.size += int64(frame.Len())
		t.length.Add(int64(frame.Len()))
	}
}

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
	t.buf = stream.Append(t.buf, stream.SafeAt(t.announced, 0))
	return nil
}

// sync brings all frames to the disk, and returns the position behind them (P2).
func (t *tail) sync() (stream.Position, error) {
	if len(t.buf) == 0 {
		return t.position, nil
	}
	_, err := t.open.Write(t.buf)
	if err == nil {
		err = t.open.SyncData()
	}
	if err != nil {
		return stream.Position{}, fmt.Errorf("write the tail: %w", err)
	}
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

// tailReader reads the frames of a tail that are on the disk.
type tailReader struct {
	*tail
	number uint64
	at     int64 // behind the last frame
	limit  int64
	file   vfs.File
	frames *stream.Reader
	read   int64
}

// reader returns a reader of all frames.
func (t *tail) reader() *tailReader {
	r := &tailReader{tail: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.files) > 0 {
		r.number = t.files[0].number
	} else {
		r.number = t.next
	}
	return r
}

// Read implements io.Reader for the frames that are on the disk.
func (r *tailReader) Read(p []byte) (int, error) {
	if r.read >= r.limit {
		return 0, io.EOF
	}
	n, err := r.file.ReadAt(p[:min(int64(len(p)), r.limit-r.read)], r.read)
	r.read += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// next returns the next frame. ok is false at the end, and changed is closed when there may be more.
func (r *tailReader) next() (f stream.Frame, ok bool, changed <-chan struct{}, err error) {
	for {
		r.mu.Lock()
		i := slices.IndexFunc(r.files, func(f tailFile) bool { return f.number == r.number })
		changed = r.changed
		more := false
		if i >= 0 {
			r.limit, more = r.files[i].size, i < len(r.files)-1
		}
		r.mu.Unlock()
		switch {
		case i >= 0 && r.at < r.limit:
			f, err := r.frame()
			return f, err == nil, nil, err
		case !more:
			return f, false, changed, nil
		}
		if err := r.close(); err != nil {
			return f, false, nil, err
		}
		r.mu.Lock()
		r.number, r.at, r.read = r.files[i+1].number, 0, 0
		r.mu.Unlock()
	}
}

// frame reads a frame.
func (r *tailReader) frame() (f stream.Frame, err error) {
	if r.file == nil {
		if r.file, err = r.fs.Open(r.path(r.number)); err != nil {
			return f, fmt.Errorf("read the tail: %w", err)
		}
		r.frames = stream.NewReader(bufio.NewReaderSize(r, 256<<10))
	}
	if f, err = r.frames.Next(); err != nil {
		return f, fmt.Errorf("read the tail %s: %w", path.Base(r.path(r.number)), err)
	}
	r.at += int64(f.Len())
	return f, nil
}

// close closes the file.
func (r *tailReader) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// before reports whether there is a file before a number.
func (t *tail) before(number uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files[0].number < number
}
