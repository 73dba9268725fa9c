package pair

import (
	"slices"

	"fanfare/internal/stream"
)

// trim removes the files before the first one in which a log begins that is not wholly applied. applied is the place of
// the applied frames, which the stores have synced.
func (t *tail) trim(upto uint64) error {
	t.mu.Lock()
	kept := slices.IndexFunc(t.files, func(f tailFile) bool { return f.number >= upto })
	removed := t.files[:kept]
	t.files = t.files[kept:]
	t.mu.Unlock()
	t.listing.Lock()
	err := t.list(true)
	t.listing.Unlock()
	if err != nil { // a disk in trouble keeps the files with the former list, and the next trim tries again
		t.mu.Lock()
		t.files = slices.Concat(removed, t.files)
		t.mu.Unlock()
		return nil //nolint:nilerr // only room is at stake, and a write to the tail names the trouble
	}
	for _, f := range removed {
		if err := t.disk.Remove(f.number); err != nil {
			return err
		}
	}
	return nil
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

// before reports whether there is a file before a number.
func (t *tail) before(number uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files[0].number < number
}
