package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/datadir"
)

// These errors are the reasons why a directory may not write to an archive. An operator has to decide.
var (
	// ErrOtherLineage means that the archive has other data.
	ErrOtherLineage = errors.New("the archive holds the data of another directory: choose another bucket or prefix, or run fanfare archive take")
	// ErrTakenOver means that another directory wrote to the archive last.
	ErrTakenOver = errors.New("another directory wrote to the archive last: a restored copy must not end its writer by accident; to continue with this directory, run fanfare archive take")
	// ErrTermsLost means that the archive lacks terms that the directory wrote.
	ErrTermsLost = errors.New("the archive lacks the last terms of this directory: check its address, or run fanfare archive take")
	// ErrReplaced means that the other machine of the pair was the primary later.
	ErrReplaced = errors.New("the other machine of the pair wrote to the archive last, as the primary of a later term: start this machine as its standby")
	// ErrOldCopy means that another copy of the directory wrote to the archive.
	ErrOldCopy = errors.New("another copy of this data directory wrote to the archive")
	// ErrCopied means that the directory is a copy of the directory that writes to the archive.
	ErrCopied = errors.New("this data directory is a copy of the one that writes to the archive, and must not end it by accident: a copy for a test needs another archive, or none")
)

// Refused reports whether err means that the process must not write to the archive, and that only an
// operator can change that.
func Refused(err error) bool {
	return Ended(err) || errors.Is(err, ErrOtherLineage) || errors.Is(err, ErrTakenOver) || errors.Is(err, ErrTermsLost) || errors.Is(err, ErrReplaced) || errors.Is(err, ErrOldCopy) || errors.Is(err, ErrCopied)
}

// Ended reports whether err means that another process has ended the term of this process, or took the next term at the
// same time.
func Ended(err error) bool {
	_, taken := errors.AsType[*TakenError](err)
	_, fenced := errors.AsType[*FencedError](err)
	return taken || fenced
}

// TakenError means that another directory took the next term at the same time.
type TakenError struct{ Term Term }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s took term %x of the archive at %s: this process must not start with it", e.Term.Node, e.Term.Number, e.Term.At.Format(time.RFC3339))
}

// original returns an error for a directory that is not the one which got the newest term, or that may be a copy of its disk.
func (s Start) original(newest Term, at edge) error {
	switch seen := (Seen{newest.Number, at.last}); {
	case s.Likeness == datadir.Copied && !s.At.Covers(at.end): // it is an older copy, too
		return nil
	case s.Likeness == datadir.Copied:
		return fmt.Errorf("%w: %s", ErrCopied, more(!at.end.Covers(s.Logs), false, at.at))
	case s.Likeness == datadir.Original || at.sealed || s.Pair != nil: // the two machines of a pair decide who writes
		return nil
	case s.Seen == nil || s.Seen.Term != seen.Term:
		return &UnsureError{seen}
	case *s.Seen != seen:
		return fmt.Errorf("%w: the other one still writes to the archive; %s", ErrCopied, more(!at.end.Covers(s.Logs), !s.At.Covers(at.end), at.at))
	}
	return nil
}

// UnsureError means that the directory may be a copy whose original still writes. If the archive has no newer segment than Seen after the
// time Quiet, nobody writes.
type UnsureError struct{ Seen Seen }

func (e *UnsureError) Error() string {
	return "the disk was started on another boot or machine, and the writer of the archive did not end in order: the archive has to show that nobody writes"
}

// Quiet returns the time in which a writer that writes a segment at each interval of the length every has written one.
func Quiet(every time.Duration) time.Duration { return leastOften + every + late }

// old returns the refusal of a directory that lacks writes of its own newest term.
func (s Start) old(at edge) error {
	return fmt.Errorf("%w: %s", ErrOldCopy, more(!at.end.Covers(s.Logs) || s.Logs != s.At, true, at.at))
}

// parted returns the refusal of a directory whose newest term another copy of it wrote. The two histories part at the end of the
// newest term that the directory got.
func (a *Archive) parted(ctx context.Context, s Start, newest Term) error {
	took, at, err := a.took(ctx, s)
	if err != nil {
		return err
	}
	there, err := a.end(ctx, newest)
	if err != nil {
		return err
	}
	began := fmt.Sprintf("it took term %x at %s", newest.Number, newest.At.Format(time.RFC3339))
	if took.Number == 0 {
		return fmt.Errorf("%w: %s, and the archive does not show which of the two has more: keep this directory", ErrOldCopy, began)
	}
	return fmt.Errorf("%w: %s; %s", ErrOldCopy, began, more(!at.end.Covers(s.Logs), !at.end.Covers(there.end), at.at))
}

// more describes which writes only this directory has and which only the archive has, and what to do. The two are equal up to a time.
func more(directory, archive bool, since time.Time) string {
	at := since.UTC().Format(time.RFC3339)
	switch {
	case directory && archive:
		return "each of the two has writes after " + at + " that the other lacks: keep this directory; fanfare archive take continues with it, and fanfare restore --term finds the writes of the other copy"
	case directory:
		return "this directory has writes after " + at + " that the archive lacks: keep it; fanfare archive take continues with it, and ends the other copy"
	case archive:
		return "the archive has all writes of this directory, and later ones: start the other copy, or, if that is lost, run fanfare restore into an empty directory"
	}
	return "both have the same writes: start the other copy, or run fanfare archive take here, which ends the other copy"
}
