package pair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"

	"fanfare/internal/datadir"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// errNotOpen means that a standby asked for a seed before the stores were open.
var errNotOpen = errors.New("the stores of the primary are not open yet, so there is no copy for the standby")

// seed sends copies of the stores. The logs of the copies are sent as frames, so that the standby has them in its tail.
// The copies are made while the stores are written: the frames of the stream from before the copies to the
// end of the copies make them equal to a state of the stores.
func (s *session) seed(ctx context.Context) error {
	p := s.primary
	p.mu.Lock()
	checkpoint := p.checkpoint
	p.mu.Unlock()
	if checkpoint == nil {
		return errNotOpen
	}
	if err := s.send(msgSeed, nil); err != nil {
		return err
	}
	dir, fs := p.cfg.Seeds, p.cfg.FS
	if err := fs.RemoveAll(dir); err != nil {
		return err
	}
	err := checkpoint(ctx, dir)
	s.upto = p.stream.End()
	if err == nil {
		err = s.sendCopies(ctx, fs, dir)
	}
	return errors.Join(err, fs.RemoveAll(dir))
}

// sendCopies sends the files of a checkpoint and then its logs.
func (s *session) sendCopies(ctx context.Context, fs vfs.FS, dir string) error {
	names, size, err := seedFiles(fs, dir)
	if err != nil {
		return fmt.Errorf("list the copies for the standby: %w", err)
	}
	s.seedSize.Store(size)
	limit := rate.NewLimiter(rate.Limit(s.primary.cfg.SeedRate), pieceSize)
	for _, name := range names {
		file, err := s.sendFile(ctx, fs, fs.PathJoin(dir, name), name, limit)
		if err != nil {
			return err
		}
		s.files = append(s.files, file)
	}
	for store, name := range map[stream.Store]string{stream.Queue: datadir.Queue, stream.Table: datadir.Table} {
		if err := s.sendLogs(ctx, fs, fs.PathJoin(dir, name), store, limit); err != nil {
			return err
		}
	}
	return nil
}

// seedFiles returns the files of a seed, and their size.
func seedFiles(fs vfs.FS, dir string) (names []string, size int64, err error) {
	for _, sub := range []string{"", datadir.Queue, datadir.Table} {
		list, err := fs.List(fs.PathJoin(dir, sub))
		if err != nil {
			return nil, 0, err
		}
		for _, name := range list {
			if name = path.Join(sub, name); seedName(name) != nil {
				continue
			}
			info, err := fs.Stat(fs.PathJoin(dir, name))
			if err != nil {
				return nil, 0, err
			}
			names, size = append(names, name), size+info.Size()
		}
	}
	return names, size, nil
}

// seedName returns an error for a name that is no file of a seed. A seed has the files of both stores without their
// logs, and the secret. The role belongs to one machine (S8).
func seedName(name string) error {
	dir, base := path.Split(name)
	inStore := dir == datadir.Queue+"/" || dir == datadir.Table+"/"
	if name == datadir.SecretFile || inStore && base != "" && base != "LOCK" && !strings.HasSuffix(base, ".log") {
		return nil
	}
	return fmt.Errorf("%w: %q is no file of a seed", ErrDamaged, name)
}

func (s *session) sendFile(ctx context.Context, fs vfs.FS, from, name string, limit *rate.Limiter) (sent seedFile, err error) {
	sent.name = name
	f, err := fs.Open(from)
	if err != nil {
		return sent, fmt.Errorf("read the copy for the standby: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := s.send(msgFile, []byte(name)); err != nil {
		return sent, err
	}
	piece := make([]byte, pieceSize)
	for {
		n, err := io.ReadFull(f, piece)
		if n > 0 {
			if err := errors.Join(limit.WaitN(ctx, n), s.send(msgContent, piece[:n])); err != nil {
				return sent, err
			}
			sent.add(piece[:n])
			s.seeded.Add(int64(n))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return sent, nil
		}
		if err != nil {
			return sent, fmt.Errorf("read the copy for the standby: %w", err)
		}
	}
}

// sendLogs sends the logs of a copy as frames. The last log continues in the stream, so its cut is left out.
func (s *session) sendLogs(ctx context.Context, fs vfs.FS, dir string, store stream.Store, limit *rate.Limiter) error {
	var end stream.Frame
	for frame, err := range follow.Logs(fs, dir, store, stream.Place{}, time.Now().UnixMilli()) {
		if err != nil {
			return err
		}
		var data []byte
		if end.Kind == stream.Cut {
			data = stream.Append(data, end)
		}
		if end = frame; frame.Kind != stream.Cut {
			data = stream.Append(data, frame)
		}
		if len(data) == 0 {
			continue
		}
		if err := errors.Join(limit.WaitN(ctx, min(len(data), pieceSize)), s.sendFrames(data)); err != nil {
			return err
		}
	}
	return nil
}
