package restore

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/archive"
	"fanfare/internal/datadir"
	"fanfare/internal/follow"
)

// Takeover is what happens if a directory takes an archive.
type Takeover struct {
	archive.Preview

	// Follows is the term after which the directory continues; 0 if it continues no term, and its first base
	// begins its history.
	Follows uint64
	// Term is the term of the directory, once it was taken.
	Term uint64
}

// Take gives the data directory data the next term of an archive, also if another directory wrote the newest term
// (A4). The next start of fanfare up with the directory continues with the archive. confirm decides, before
// anything is written: an error of confirm is returned.
func Take(ctx context.Context, a *archive.Archive, data, version string, confirm func(Takeover) error) (t Takeover, err error) {
	dir, err := datadir.Open(data)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	state, err := archive.LoadState(data)
	if err != nil {
		return t, err
	}
	stores := follow.Stores{FS: vfs.Default, Queue: dir.Path(datadir.Queue), Table: dir.Path(datadir.Table)}
	if err := stores.Compare(); err != nil {
		return t, err
	}
	at, err := stores.End()
	if err != nil {
		return t, err
	}
	start := state.Start(at, version, dir.Format())
	start.Anyway = true
	if t.Preview, err = a.Preview(ctx, start); err != nil {
		return t, err
	}
	t.Follows, start.Over = t.Next.Parent.Term, &t.Newest.Number
	if err := confirm(t); err != nil {
		return t, err
	}
	if err := state.Begin(at); err != nil {
		return t, err
	}
	term, err := a.Take(ctx, start)
	if err != nil {
		return t, err
	}
	t.Term, t.Follows = term.Number, term.Parent.Term
	return t, state.Take(term)
}
