package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/stream"
)

// Stores are the directories of the stores of a process, before Pebble opens them. FS is their file system.
type Stores struct {
	FS           vfs.FS
	Queue, Table string
}

func (s Stores) dirs() map[stream.Store]string {
	return map[stream.Store]string{stream.Queue: s.Queue, stream.Table: s.Table}
}

// Compare returns an error if a log of the stores lacks a byte. It comes once, before everything that hands on the logs or claims something for them:
// the receiver's copy of such a log stays wrong when the operator has brought the file back.
func (s Stores) Compare() error {
	for _, dir := range s.dirs() {
		if err := disk.CompareLogs(s.FS, dir); err != nil {
			return err
		}
	}
	return nil
}

// End returns where the logs of the stores end.
func (s Stores) End() (stream.Position, error) { return s.each(End) }

// First returns where the logs of the stores begin.
func (s Stores) First() (stream.Position, error) { return s.each(First) }

func (s Stores) each(of func(vfs.FS, string) (stream.Place, error)) (at stream.Position, err error) {
	for store, dir := range s.dirs() {
		place, err := of(s.FS, dir)
		if err != nil {
			return at, err
		}
		at = at.With(store, place)
	}
	return at, nil
}

// OpenStream opens the stream of the stores, and adds the rest of their logs (S7). from is the position of the
// slowest receiver; the zero Position means that the position is not known. The receiver holds all frames of the
// stream. If the logs do not continue the stream, because a process without the stream wrote to the stores, the stream
// begins again, and the receiver gets a gap. Between the two stores, the frames before the end of the opened stream have no order.
func (s Stores) OpenStream(config stream.Config, from stream.Position) (*stream.Stream, *stream.Receiver, error) {
	config.FS = s.FS
	if config.Now == nil {
		config.Now = time.Now
	}
	opened, receiver, err := s.openFrom(config, from)
	if errors.Is(err, ErrMissing) {
		config.Log.Warn("the logs do not continue the stream: the next base or seed ends the gap", zap.Error(err))
		if err = s.FS.RemoveAll(config.Dir); err == nil {
			opened, receiver, err = s.openFrom(config, stream.Position{})
		}
	}
	return opened, receiver, err
}

func (s Stores) openFrom(config stream.Config, from stream.Position) (*stream.Stream, *stream.Receiver, error) {
	opened, err := s.begin(config, from)
	if err != nil {
		return nil, nil, err
	}
	receiver := opened.Hold()
	now := config.Now().UnixMilli()
	for _, store := range []stream.Store{stream.Queue, stream.Table} {
		for frame, err := range Logs(s.FS, s.dirs()[store], store, opened.End().Of(store), now) {
			if errors.Is(err, fs.ErrNotExist) {
				break // the store is new
			}
			if err != nil {
				return nil, nil, errors.Join(fmt.Errorf("add the rest of the logs to the stream: %w", err), opened.Close())
			}
			opened.Add(frame)
		}
	}
	return opened, receiver, nil
}

// begin opens the stream. Without a position and without frames in the spool, the stream begins with the oldest
// logs: a log was removed only when the receivers or the spool had its bytes.
func (s Stores) begin(config stream.Config, from stream.Position) (*stream.Stream, error) {
	opened, err := stream.Open(config, from)
	if err != nil || opened.End() != (stream.Position{}) {
		return opened, err
	}
	if from, err = s.First(); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	if err := opened.Close(); err != nil {
		return nil, err
	}
	return stream.Open(config, from)
}
