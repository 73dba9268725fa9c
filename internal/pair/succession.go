package pair

import (
	"fanfare/internal/datadir"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

// Succession is the place at which a standby becomes the primary.
type Succession struct {
	// Disk is the disk of the primary before. The standby has its stream exactly up to Upto, which may be before the standby's position: the
	// bytes after a cut do not count.
	Disk string
	Upto stream.Position
	// At is the end of the logs of the standby itself.
	At stream.Position
}

// become closes the stores and stores the role of the primary. exact means that the stores have the whole tail.
func (s *Standby) become(exact bool) error {
	upto := s.tail.counts()
	exact = exact && !s.tail.unproven // a failed write may have left frames behind the end
	if err := s.closeData(); err != nil {
		return err
	}
	kept := false
	if exact {
		var err error
		if kept, err = s.succeeded(upto); err != nil {
			return err
		}
	}
	// A spool of an earlier time as the primary does not fit the logs.
	if err := s.remove(s.cfg.Stream); err != nil {
		return err
	}
	err := s.save(func(r *Role) {
		r.Role, r.Mode, r.Term, r.Since, r.GivesUp = RolePrimary, ModeAlone, r.Claimed, 0, false
	})
	if err != nil || kept {
		return err
	}
	return s.remove(s.path(TailDir))
}

// succeeded reports the place at which the standby becomes the primary. kept means that the tail is needed further on.
func (s *Standby) succeeded(upto stream.Position) (kept bool, err error) {
	// A tail after a seed has no place in a store until the first frame of that store.
	if s.cfg.Succeeded == nil || upto.Queue == (stream.Place{}) || upto.Table == (stream.Place{}) {
		return false, nil
	}
	stores := follow.Stores{FS: s.cfg.FS, Queue: s.path(datadir.Queue), Table: s.path(datadir.Table)}
	at, err := stores.End()
	if err != nil {
		return false, err
	}
	return true, s.cfg.Succeeded(Succession{s.role.Peer, upto, at})
}
