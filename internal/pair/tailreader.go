package pair

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/stream"
)

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
	if len(t.files) > 0 { // otherwise the first file will have the number 0
		r.number = t.files[0].number
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
			r.limit, more = r.files[i].Bytes, i < len(r.files)-1
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
		if r.file, err = r.disk.FS.Open(r.disk.Path(r.number)); err != nil {
			return f, fmt.Errorf("read the tail: %w", err)
		}
		r.frames = stream.NewReader(bufio.NewReaderSize(r, 256<<10))
	}
	if f, err = r.frames.Next(); err != nil {
		return f, fmt.Errorf("%w: read the tail %s: %w", ErrDamagedCopy, path.Base(r.disk.Path(r.number)), err)
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
