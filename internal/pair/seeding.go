package pair

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/stream"
)

// seeding receives a seed.
type seeding struct {
	fs   vfs.FS
	path func(string) string
	file vfs.File // nil between two files
	// files are the files that have arrived, and list the files that the primary has sent.
	files, list []seedFile
	frames      seedFile
	// secret is the content of the secret during its transfer. Only its owner may read the file.
	secret []byte
}

// beginSeed makes room for a seed. A standby that has data first becomes one without data, with a new disk, because
// the primary must not take it for the disk with the old data. Then it connects again.
func (f *following) beginSeed() error {
	s := f.standby
	if s.role.Mode != ModeSeeding {
		err := s.save(func(r *Role) { r.Mode, r.Disk = ModeSeeding, rand.Text() })
		if err == nil { // a standby whose role is not stored keeps its data
			if err = s.closeData(); err != nil {
				return applyError{err}
			}
			err = errAgain
		}
		return err
	}
	err := s.save(func(r *Role) { r.Lineage, r.Term, r.Peer = f.peer.Lineage, f.peer.Term, f.peer.Disk })
	if err != nil {
		return err
	}
	if err := s.closeData(); err != nil {
		return applyError{err}
	}
	if err := s.remove(s.path(datadir.Queue), s.path(datadir.Table), s.path(TailDir), s.cfg.Stream); err != nil {
		return err
	}
	for _, name := range []string{datadir.Queue, datadir.Table} {
		if err := disk.MakeDir(s.cfg.FS, s.path(name)); err != nil {
			return err
		}
	}
	if s.tail, err = openTail(s.cfg.FS, s.path(TailDir), s.cfg.TailSize); err != nil {
		return err
	}
	f.seeding = &seeding{fs: s.cfg.FS, path: s.path}
	return nil
}

// seeded handles a message of a seed.
func (f *following) seeded(m message) error {
	if f.seeding == nil {
		return unexpected(m.kind)
	}
	switch m.kind {
	case msgFile:
		return f.seeding.begin(string(m.data))
	case msgContent:
		f.standby.mu.Lock()
		f.standby.seeded += int64(len(m.data))
		f.standby.mu.Unlock()
		return f.seeding.write(m.data)
	case msgListed:
		return f.seeding.listed(m.data)
	default:
		return f.whole(m.data)
	}
}

// whole ends a seed. The stores are opened when all files are there: a message that was left out would leave an empty store.
func (f *following) whole(list []byte) error {
	s := f.standby
	err := f.seeding.end()
	if err == nil {
		err = f.seeding.listed(list)
	}
	if err == nil {
		err = f.seeding.check()
	}
	if err != nil {
		return err
	}
	if err := f.seeding.syncDirs(); err != nil {
		return err
	}
	if _, err := s.tail.sync(); err != nil {
		return err
	}
	for _, store := range []string{datadir.Queue, datadir.Table} {
		if err := disk.Adopt(s.cfg.FS, s.path(store)); err != nil {
			return err
		}
	}
	if err := s.openData(); err != nil {
		return applyError{err}
	}
	f.seeding = nil
	return s.save(func(r *Role) { r.Mode = ModeFollowing })
}

// begin begins a file.
func (s *seeding) begin(name string) error {
	if err := errors.Join(seedName(name), s.end()); err != nil {
		return err
	}
	s.files = append(s.files, seedFile{name: name})
	if name == datadir.SecretFile {
		s.secret = []byte{}
		return nil
	}
	file, err := s.fs.Create(s.path(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("write the copy of the primary: %w", err)
	}
	s.file = file
	return nil
}

func (s *seeding) write(data []byte) error {
	if s.secret == nil && s.file == nil {
		return unexpected(msgContent)
	}
	s.files[len(s.files)-1].add(data)
	if s.secret != nil {
		s.secret = append(s.secret, data...)
		return nil
	}
	if _, err := s.file.Write(data); err != nil {
		return fmt.Errorf("write the copy of the primary: %w", err)
	}
	return nil
}

// end ends the file, which is on the disk then.
func (s *seeding) end() error {
	if s.secret != nil {
		err := datadir.WriteFile(s.path(datadir.SecretFile), s.secret)
		s.secret = nil
		return err
	}
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.Sync(), s.file.Close())
	s.file = nil
	if err != nil {
		return fmt.Errorf("write the copy of the primary: %w", err)
	}
	return nil
}

// close ends the seed without its end.
func (s *seeding) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// syncDirs brings the names of the files to the disk.
func (s *seeding) syncDirs() error {
	for _, name := range []string{"", datadir.Queue, datadir.Table} {
		if err := disk.SyncDir(s.fs, s.path(name)); err != nil {
			return fmt.Errorf("sync the directories of the standby: %w", err)
		}
	}
	return nil
}

// openStore opens a store that is there: a start and the end of a seed never make a store, which would be an empty copy.
func (s *Standby) openStore(store stream.Store) (*disk.DB, error) {
	dir := s.path(storeDir(store))
	found, err := pebble.Peek(dir, s.cfg.FS)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !found.Exists {
		return nil, fmt.Errorf("%w: there is no store in %s", disk.ErrDamaged, dir)
	}
	if err != nil {
		return nil, err
	}
	return s.cfg.Open(store, dir)
}
