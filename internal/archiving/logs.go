package archiving

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// dirs returns the directories of the stores.
func (a *Archiving) dirs() map[stream.Store]string {
	return map[stream.Store]string{stream.Queue: a.cfg.Queue, stream.Table: a.cfg.Table}
}

// logsEnd returns where the logs of the stores end.
func (a *Archiving) logsEnd() (at stream.Position, err error) {
	for store, dir := range a.dirs() {
		place, err := follow.End(a.cfg.FS, dir)
		if err != nil {
			return at, err
		}
		at = at.With(store, place)
	}
	return at, nil
}

// logsBegin returns where the logs of the stores begin.
func (a *Archiving) logsBegin() (at stream.Position, err error) {
	for store, dir := range a.dirs() {
		place, err := follow.First(a.cfg.FS, dir)
		if err != nil {
			return at, err
		}
		at = at.With(store, place)
	}
	return at, nil
}

// openStream opens the stream, and hands on the bytes of the logs after the frames of the spool (S7).
func (a *Archiving) openStream() error {
	var from stream.Position // if the end of the archive is not known yet, all frames of the spool are needed
	if a.term != nil {
		from = stream.Position(a.term.From)
	}
	err := a.openFrom(from)
	if errors.Is(err, follow.ErrMissing) {
		// A process without an archive wrote to the directory, so the stream has a gap.
		a.cfg.Log.Warn("the logs do not continue the stream: the archive gets a gap and a new base", zap.Error(err))
		if err = a.cfg.FS.RemoveAll(a.cfg.Stream); err == nil {
			err = a.openFrom(stream.Position{})
		}
	}
	return err
}

// open opens the stream. Without a position and without frames in the spool, the stream begins with the oldest
// logs: a log was removed only when the archive or the spool had its bytes.
func (a *Archiving) open(from stream.Position) (*stream.Stream, error) {
	config := stream.Config{FS: a.cfg.FS, Dir: a.cfg.Stream, Spool: a.cfg.Spool, Log: a.cfg.Log, Now: a.cfg.Now}
	s, err := stream.Open(config, from)
	if err != nil || s.End() != (stream.Position{}) {
		return s, err
	}
	if from, err = a.logsBegin(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return stream.Open(config, from)
}

func (a *Archiving) openFrom(from stream.Position) (err error) {
	s, err := a.open(from)
	if err != nil {
		return err
	}
	receiver := s.Hold()
	now := a.cfg.Now().UnixMilli()
	for _, store := range []stream.Store{stream.Queue, stream.Table} {
		if a.ends.Of(store) == (stream.Place{}) {
			continue // the store is new
		}
		for frame, err := range follow.Logs(a.cfg.FS, a.dirs()[store], store, s.End().Of(store), now) {
			if err != nil {
				return errors.Join(fmt.Errorf("bring the rest of the logs to the archive: %w", err), s.Close())
			}
			s.Add(frame)
		}
	}
	a.stream = s
	a.intake = &intake{stream: s, receiver: receiver, log: a.cfg.Log, rest: s.End()}
	return nil
}
