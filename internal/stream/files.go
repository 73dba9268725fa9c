package stream

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk"
)

// Files is a directory of numbered files with records: the spool, and the tail of a standby. The owner knows the form of a record,
// and what an invalid end of a file means. One goroutine calls the methods; any goroutine may call Path and Remove.
//
// After a write or a sync that failed, the system may have dropped bytes which it still shows to readers, and a later sync
// succeeds without these bytes. So the next file begins after an error and after a start, and before it a copy takes the place of a
// file with an error: no file but the newest one has bytes of this process that are not on the disk (S4b).
type Files struct {
	FS  vfs.FS
	Dir string
	// Extension is the end of the names. Size is the size at which the next file begins.
	Extension string
	Size      int64

	open    vfs.File // the file to which the next record is appended, nil for the next file
	next    uint64   // the number behind the newest file that has a record
	content Content  // of the open file, and of the newest file of this process if none is open
	torn    bool     // the newest file may have bytes behind its content
}

// Content is the size of the records of a file that are on the disk, and their sum.
type Content struct {
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"` // CRC-32C
}

// With returns the content with one more record.
func (c Content) With(record []byte) Content {
	return Content{c.Bytes + int64(len(record)), crc32.Update(c.Sum, crc32.MakeTable(crc32.Castagnoli), record)}
}

// Path returns the path of a file.
func (f *Files) Path(number uint64) string {
	return f.FS.PathJoin(f.Dir, fmt.Sprintf("%016x%s", number, f.Extension))
}

// Next returns the number behind the newest file.
func (f *Files) Next() uint64 { return f.next }

// Torn reports whether a failed write may have left bytes behind the content of the newest file.
func (f *Files) Torn() bool { return f.torn }

// Load makes the directory if it is absent, and calls read with each file in order.
func (f *Files) Load(read func(number uint64, file vfs.File, newest bool) error) error {
	if err := disk.MakeDir(f.FS, f.Dir); err != nil {
		return fmt.Errorf("make the directory %s: %w", f.Dir, err)
	}
	names, err := f.FS.List(f.Dir)
	if err != nil {
		return fmt.Errorf("list the files in %s: %w", f.Dir, err)
	}
	var numbers []uint64
	for _, name := range names {
		digits, is := strings.CutSuffix(name, f.Extension)
		if number, err := strconv.ParseUint(digits, 16, 64); is && err == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	for i, number := range numbers {
		f.next = number + 1
		file, err := f.FS.Open(f.Path(number))
		if err == nil {
			err = errors.Join(read(number, file, i == len(numbers)-1), file.Close())
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Path(number), err)
		}
	}
	return nil
}

// Append appends a record to the newest file, or to the next one, and returns the file and its content. The record is on the disk then.
func (f *Files) Append(record []byte) (number uint64, content Content, err error) {
	if f.open == nil || f.content.Bytes >= f.Size {
		if err := f.begin(); err != nil {
			return 0, Content{}, err
		}
	}
	content = f.content.With(record) // before the write, because a file system may change the record
	_, err = f.open.Write(record)
	if err == nil {
		err = f.open.SyncData()
	}
	if err != nil {
		err = errors.Join(err, f.Close())
		if f.torn = f.content.Bytes > 0; !f.torn {
			err = errors.Join(err, f.FS.Remove(f.Path(f.next)))
		}
		return 0, Content{}, err
	}
	if f.content.Bytes == 0 {
		f.next++
	}
	f.content = content
	return f.next - 1, content, nil
}

// begin begins the next file.
func (f *Files) begin() error {
	if err := f.Close(); err != nil {
		return err
	}
	if f.torn {
		if err := f.Renew(f.content); err != nil {
			return err
		}
	}
	file, err := f.FS.Create(f.Path(f.next), vfs.WriteCategoryUnspecified) // in place of the file of an earlier try
	if err != nil {
		return fmt.Errorf("make a file in %s: %w", f.Dir, err)
	}
	if err := disk.SyncDir(f.FS, f.Dir); err != nil {
		return fmt.Errorf("sync %s: %w", f.Dir, errors.Join(err, file.Close(), f.FS.Remove(f.Path(f.next))))
	}
	f.open, f.content = file, Content{}
	return nil
}

// Renew makes a copy of the newest file that has nothing but a content, and that is on the disk.
func (f *Files) Renew(content Content) (err error) {
	newest := f.Path(f.next - 1)
	source, err := f.FS.Open(newest)
	if err == nil {
		err = disk.Replace(f.FS, newest, func(file io.Writer) error {
			_, err := io.CopyN(file, source, content.Bytes)
			return err
		}) // a reader keeps the replaced file open, which has the same records
		err = errors.Join(err, source.Close())
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", newest, err)
	}
	f.torn = false
	return nil
}

// Close closes the newest file. A later record goes to the next one.
func (f *Files) Close() error {
	if f.open == nil {
		return nil
	}
	err := f.open.Close()
	f.open = nil
	return err
}

// forget closes the newest file, whose records nobody needs any more.
func (f *Files) forget() error {
	f.torn = false
	return f.Close()
}

// Remove removes files in order.
func (f *Files) Remove(numbers ...uint64) error {
	for _, number := range numbers {
		err := f.FS.Remove(f.Path(number))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = disk.SyncDir(f.FS, f.Dir) // else a power cut may bring this file back, but not the next one: a hole
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", f.Path(number), err)
		}
	}
	return nil
}
