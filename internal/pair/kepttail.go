package pair

import (
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/stream"
)

// KeptTail is the tail of a standby that has become the primary. Only one goroutine may use it.
type KeptTail struct {
	// FS is the file system of Dir, the directory of the tail.
	FS  vfs.FS
	Dir string
}

// Frames yields the frames of the tail in order, and ends with the first error.
func (k KeptTail) Frames() iter.Seq2[stream.Frame, error] {
	return func(yield func(stream.Frame, error) bool) {
		t, err := openTail(k.FS, k.Dir, tailSize)
		if err != nil {
			yield(stream.Frame{}, err)
			return
		}
		r, wanted := t.reader(), true
		for wanted {
			f, more, _, readErr := r.next()
			if err = readErr; !more {
				break
			}
			wanted = yield(f, nil)
		}
		if err = errors.Join(err, r.close(), t.disk.Close()); err != nil && wanted {
			yield(stream.Frame{}, err)
		}
	}
}

// Forget removes the tail.
func (k KeptTail) Forget() error {
	if err := k.FS.RemoveAll(k.Dir); err != nil {
		return fmt.Errorf("remove the tail of the standby: %w", err)
	}
	return nil
}
