package pair

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"fanfare/internal/disk"
	"fanfare/internal/stream"
	"fanfare/internal/strictjson"
)

// tailNeeds is the name of the list of the files that a tail must have: an absent file looks like a file that never was.
const tailNeeds = "NEEDS"

// tailList is the list of the files of a tail.
type tailList struct {
	// First is the number of the first file.
	First uint64 `json:"first"`
	// Files are the contents of the files from First on. The last one has no bytes while the file grows.
	Files []stream.Content `json:"files"`
}

// needs returns the path of the list.
func (t *tail) needs() string { return t.disk.FS.PathJoin(t.disk.Dir, tailNeeds) }

// next returns the number behind the last file of the list.
func (l tailList) next() uint64 { return l.First + uint64(len(l.Files)) }

// enlist writes the list if the newest file is not in it.
func (t *tail) enlist() error {
	t.listing.Lock()
	defer t.listing.Unlock()
	if t.listed == t.disk.Next() {
		return nil
	}
	return t.list(true)
}

// list writes the list of the present files, if grows is set without the content of the newest one. The newest file enters the list before its
// frames are confirmed, and a file leaves the list before it is removed, so the list is true after a crash at any moment. The caller holds
// listing.
func (t *tail) list(grows bool) error {
	t.mu.Lock()
	next := tailList{}
	for i, f := range t.files {
		if i == 0 {
			next.First = f.number
		}
		next.Files = append(next.Files, f.Content)
	}
	t.mu.Unlock()
	if grows {
		next.Files[len(next.Files)-1] = stream.Content{}
	}
	text, err := strictjson.MarshalSummed(next)
	if err == nil {
		err = disk.WriteFile(t.disk.FS, t.needs(), text)
	}
	if err != nil {
		return fmt.Errorf("write the list of the files of the tail: %w", err)
	}
	t.listed = next.next()
	return nil
}

// finish closes the tail of a process that ends in order. From then on a cut of the newest file is not taken for the work of a crash, unless a
// failed write left bytes behind its frames.
func (t *tail) finish() error {
	t.listing.Lock()
	defer t.listing.Unlock()
	if t.listed > 0 {
		_ = t.list(t.disk.Torn()) // on a disk in trouble a cut of the file looks like a power cut
	}
	return t.disk.Close()
}

// checkList compares the files with the list. A tail without a list has at most its first file, because the list follows the first frames.
func (t *tail) checkList() error {
	path := t.needs()
	text, err := disk.ReadFile(t.disk.FS, path)
	if errors.Is(err, fs.ErrNotExist) && (len(t.files) == 0 || len(t.files) == 1 && t.files[0].number == 0) {
		return nil
	}
	list := tailList{}
	if err == nil {
		err = strictjson.UnmarshalSummed(text, &list)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamagedCopy, path, err)
	}
	if len(list.Files) == 0 || list.First > math.MaxInt64 {
		return fmt.Errorf("%w: %s names no file", ErrDamagedCopy, path)
	}
	has := map[uint64]stream.Content{}
	for _, f := range t.files {
		has[f.number] = f.Content
	}
	for number := list.First; number < max(list.next(), t.disk.Next()); number++ { // a crash may have left the newest files out of the list
		got, is := has[number]
		want := stream.Content{}
		if i := number - list.First; i < uint64(len(list.Files)) {
			want = list.Files[i]
		}
		switch {
		case !is:
			return fmt.Errorf("%w: %s is absent", ErrDamagedCopy, t.disk.Path(number))
		case want.Bytes > 0 && got != want:
			return fmt.Errorf("%w: %s has other bytes than the standby wrote", ErrDamagedCopy, t.disk.Path(number))
		}
	}
	t.listed = list.next()
	return nil
}
