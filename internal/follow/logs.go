package follow

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/stream"
)

// pieceSize is the length of the pieces in which a log is read.
const pieceSize = 256 << 10

// Logs yields the frames of a store's logs in dir from a place on (S7): a start hands on with them what a
// crash left, before Pebble opens the store. Each log ends with a cut behind its last whole record, because what
// is behind it never was. Logs syncs each log first, so the frames are before the safe point. All
// have one time: between the two stores they have no order, so no restore may end between them.
// It yields ErrMissing if the log of the place is gone.
func Logs(fs vfs.FS, dir string, store stream.Store, after stream.Place, time int64) iter.Seq2[stream.Frame, error] {
	return func(yield func(stream.Frame, error) bool) {
		numbers, err := logsFrom(fs, dir, after.Log)
		if err == nil && after.Log > 0 && !slices.Contains(numbers, after.Log) {
			err = fmt.Errorf("%w: %s has no log %d", ErrMissing, dir, after.Log)
		}
		for i := 0; i < len(numbers) && err == nil; i++ {
			frame := stream.Frame{Store: store, Time: time, Log: numbers[i]}
			from := uint64(0)
			if frame.Log == after.Log {
				from = after.Offset
			} else {
				frame.Kind = stream.Begins
				if !yield(frame, nil) {
					return
				}
			}
			var more bool
			if more, err = yieldLog(fs, dir, frame, from, yield); !more {
				return
			}
		}
		if err != nil {
			yield(stream.Frame{}, err)
		}
	}
}

// logsFrom returns the numbers of the logs in dir in order, without those below a number.
func logsFrom(fs vfs.FS, dir string, least uint64) (numbers []uint64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list the logs in %s: %w", dir, err)
	}
	for _, name := range names {
		digits, isLog := strings.CutSuffix(name, ".log")
		number, err := strconv.ParseUint(digits, 10, 64)
		if isLog && err == nil && number >= least {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// yieldLog yields the bytes of the log of a frame and its cut. more is false if the caller needs no more.
func yieldLog(fs vfs.FS, dir string, frame stream.Frame, from uint64, yield func(stream.Frame, error) bool) (more bool, err error) {
	path := fs.PathJoin(dir, fmt.Sprintf("%06d.log", frame.Log))
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return true, fmt.Errorf("read the log %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return true, fmt.Errorf("sync the log %s: %w", path, err)
	}
	end, err := wholeRecords(f, frame.Log)
	if err != nil {
		return true, fmt.Errorf("read the log %s: %w", path, err)
	}
	frame.Kind = stream.Bytes
	for frame.Offset = from; frame.Offset < end; frame.Offset += uint64(len(frame.Data)) {
		frame.Data = make([]byte, min(pieceSize, end-frame.Offset))
		if _, err := f.ReadAt(frame.Data, int64(frame.Offset)); err != nil {
			return true, fmt.Errorf("read the log %s: %w", path, err)
		}
		if !yield(frame, nil) {
			return false, nil
		}
	}
	frame.Kind, frame.Offset, frame.Data = stream.Cut, end, nil
	return yield(frame, nil), nil
}

// End returns the place at which the logs in dir end: before Pebble opened the store, nothing of
// the store is behind this place. The place may be behind the last whole record, because a crash
// leaves a part of a record, and because each log ends with a mark of its end. A directory without logs has the
// zero Place.
func End(files vfs.FS, dir string) (at stream.Place, err error) {
	numbers, err := logsFrom(files, dir, 0)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(numbers) == 0 {
		return stream.Place{}, nil
	}
	if err != nil {
		return stream.Place{}, err
	}
	at.Log = numbers[len(numbers)-1]
	path := files.PathJoin(dir, fmt.Sprintf("%06d.log", at.Log))
	f, err := files.Open(path)
	if err != nil {
		return stream.Place{}, fmt.Errorf("read the log %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err == nil {
		at.Offset, err = wholeChunks(f, at.Log, uint64(info.Size()))
	}
	if err != nil {
		return stream.Place{}, fmt.Errorf("read the log %s: %w", path, err)
	}
	return at, nil
}

// firstLog is the number of the first log that Pebble writes in a new store.
const firstLog = 2

// First returns the place at which the oldest log in dir begins. It returns the zero Place if the store has no
// log, or if no log of the store was removed.
func First(files vfs.FS, dir string) (stream.Place, error) {
	numbers, err := logsFrom(files, dir, 0)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(numbers) == 0 {
		return stream.Place{}, nil
	}
	if err != nil {
		return stream.Place{}, err
	}
	if numbers[0] == firstLog {
		return stream.Place{}, nil
	}
	return stream.Place{Log: numbers[0]}, nil
}

// A log has blocks of this size. Records are split into chunks, which have headers. A block whose rest is
// shorter than the longest header may be filled with zeros.
const (
	blockSize   = 32 << 10
	chunkHeader = 19
	endMark     = 11
)

// wholeChunks returns the place behind the last whole chunk of a log of a size, or behind the mark of the
// log's end.
func wholeChunks(log io.Reader, number, size uint64) (end uint64, err error) {
	records := newReader(record.NewReader, bufio.NewReaderSize(log, pieceSize), number)
	for buf := make([]byte, blockSize); err == nil; {
		var chunks io.Reader
		if chunks, err = records.Next(); err != nil {
			break
		}
		for err == nil {
			end = uint64(records.Offset())
			_, err = chunks.Read(buf)
		}
		if errors.Is(err, io.EOF) { // the record is whole
			err = nil
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return min(size, uint64(records.Offset())+endMark), nil
	case !record.IsInvalidRecord(err):
		return 0, err
	}
	if rest := blockSize - end%blockSize; rest < chunkHeader {
		end += rest
	}
	return min(size, end), nil
}

// wholeRecords returns the place behind the last whole record of a log. A log that took the
// file of an older one has bytes of that behind it.
func wholeRecords(log io.Reader, number uint64) (uint64, error) {
	records := newReader(record.NewReader, bufio.NewReaderSize(log, pieceSize), number)
	for end := uint64(0); ; end = uint64(records.Offset()) {
		if _, err := nextRecord(records); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, record.ErrUnexpectedEOF) {
				err = nil
			}
			return end, err
		}
	}
}
