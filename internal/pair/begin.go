package pair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/datadir"
	"fanfare/internal/follow"
	"fanfare/internal/objects"
)

// BeginConfig is the configuration of a start with a register.
type BeginConfig struct {
	// Role is the role of the data directory. Begin changes and saves it.
	Role     *Role
	Register Register
	Timing   Timing
	// FS is the file system of the stores; the operating system's file system if nil. Queue and Table are the directories of the stores.
	FS           vfs.FS
	Queue, Table string
	// Ask asks the other machine what it is; nil if it cannot be asked.
	Ask func(context.Context) (Hello, error)
	// Waiting is called with the reason when Begin has to wait for the register; nil for no call.
	Waiting func(error)
	Log     *zap.Logger
}

// beginning is a start with a register.
type beginning struct {
	BeginConfig
	stores  follow.Stores
	version objects.Version // the newest version that was read
	seen    time.Duration   // the time of its first answer
	asked   bool            // the other machine needs no question any more
	first   objects.Version // the version that was read first, since a time
	since   time.Duration
	lone    bool // no other process has the disk
}

// Begin asks the register for the role with which a process starts, before OpenPrimary or OpenStandby (P17). It waits until the
// register answers. A primary that the register names takes the next term; any other primary becomes a standby without data.
// A standby that the register names stays a standby, and Standby.Run ends its promotion.
func Begin(ctx context.Context, cfg BeginConfig) error {
	if err := cfg.Role.copied(); err != nil {
		return err
	}
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	cfg.Timing = cfg.Timing.withClock()
	b := &beginning{BeginConfig: cfg, stores: follow.Stores{FS: cfg.FS, Queue: cfg.Queue, Table: cfg.Table}}
	waits := backoff.Exponential{First: 100 * time.Millisecond, Most: cfg.Timing.Patience}
	logged := ""
	for failures := 1; ; failures++ {
		done, err := b.try(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case done:
			return err
		}
		if cfg.Waiting != nil {
			cfg.Waiting(err)
		}
		if reason := reasonOf(err); reason != logged {
			logged = reason
			cfg.Log.Warn("the start waits", zap.Int("tries", failures), zap.Error(err))
		}
		if err := backoff.Wait(ctx, waits.Jittered(failures, rand.Float64())); err != nil {
			return err
		}
	}
}

// reasonOf returns a text that is equal for errors with one reason: each error of S3 has another request id.
func reasonOf(err error) string {
	for _, kind := range []error{objects.ErrRefused, objects.ErrAway, ErrSwapped} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if errors.Is(err, context.DeadlineExceeded) { // a slow store
		return objects.ErrAway.Error()
	}
	return err.Error()
}

// try reads the register once. It reports whether Begin ends.
func (b *beginning) try(ctx context.Context) (done bool, err error) {
	soon, cancel := context.WithTimeout(ctx, b.Timing.Lease)
	defer cancel()
	entry, version, err := b.Register.Read(soon)
	if errors.Is(err, ErrNoEntry) {
		return b.create(soon)
	}
	if err != nil {
		return false, err
	}
	if version != b.version {
		b.version, b.seen = version, b.Timing.Now()
	}
	role := b.Role
	switch {
	case role.Lineage != "" && role.Lineage != entry.Lineage:
		return true, fmt.Errorf("%w: the register is of another pair", ErrLineage)
	case entry.Primary == role.Disk && entry.Term > max(role.Term, role.Claimed):
		return true, ErrOldCopy
	case role.Role == RoleStandby:
		return true, nil
	case entry.Primary != role.Disk && entry.Term < role.Term && role.Claimed > 0:
		return true, fmt.Errorf("%w: its term is %d, and the term of this primary is %d", ErrRegisterGone, entry.Term, role.Term)
	case entry.Primary != role.Disk && entry.Term >= role.Term:
		b.Log.Warn("the register names the other machine: this machine becomes its standby, and gets a new copy of all data", zap.Uint64("term", entry.Term))
		return true, role.Demote()
	}
	if done, err := b.twin(soon, entry); done || err != nil {
		return done, err
	}
	if done, err := b.ask(soon); done || err != nil {
		return done, err
	}
	return b.take(ctx, entry)
}

// twin looks for another process with the disk of this primary, if the directory looks as after a boot or a move, because a clone of a whole disk
// looks so, too. The other process has a session with the standby, or renews the register, and the register must not change before that is known.
func (b *beginning) twin(ctx context.Context, entry Entry) (done bool, err error) {
	if b.lone || b.Role.likeness() == datadir.Original {
		return false, nil
	}
	if b.first == "" {
		b.first, b.since = b.version, b.Timing.Now()
	}
	paired := false
	if b.Ask != nil {
		peer, err := b.Ask(ctx)
		paired = err == nil && peer.Peer == b.Role.Disk && peer.Follows != ""
	}
	over := b.Timing.Now()-b.since > 2*b.Timing.with(entry.Lease).Lease // a session with a lost process, and the time between two renewals, are shorter
	switch {
	case b.version != b.first, paired && over:
		return true, fmt.Errorf("%w: %w", ErrSameDisk, errTwin)
	case over, !paired && entry.Mode != ModeAlone:
		b.lone = true
		return false, nil
	}
	return false, errTwin
}

// ask asks the other machine whether it is the primary, if no register has decided the role: the other machine may have been promoted
// without a register. A paired primary waits for the answer, as a start without a register does.
func (b *beginning) ask(ctx context.Context) (done bool, err error) {
	role := b.Role
	if b.asked || b.Ask == nil || role.Claimed > 0 {
		return false, nil
	}
	peer, err := b.Ask(ctx)
	if err == nil {
		if err := SameDisk(AskingHello(role, 0, ""), peer); err != nil {
			return true, err
		}
	}
	switch {
	case err != nil && role.Mode == ModePaired:
		return false, fmt.Errorf("%w: start it, or if its disk is gone, run fanfare unpair --standby-is-gone: %w", ErrAway, err)
	case err != nil:
		b.Log.Warn("the other machine of the pair does not answer: this machine starts alone", zap.Error(err))
	case peer.replaces(AskingHello(role, 0, "")):
		b.Log.Warn("the other machine is the primary: this machine becomes its standby, and gets a new copy of all data", zap.Uint64("term", peer.Term))
		return true, role.Demote()
	}
	b.asked = true
	return false, nil
}

// create makes the first entry. A machine that has used the register before has lost the entry, and must not guess it.
func (b *beginning) create(ctx context.Context) (done bool, err error) {
	role := b.Role
	switch {
	case role.Claimed > 0:
		return true, ErrRegisterGone
	case role.Role == RoleStandby:
		return true, nil
	}
	if done, err := b.ask(ctx); done || err != nil {
		return done, err
	}
	if err := role.compare(b.stores); err != nil {
		return true, err
	}
	entry := role.entry()
	entry.Lease = b.Timing.Lease.Milliseconds()
	if _, err := b.Register.Swap(ctx, "", entry); err != nil {
		return false, err
	}
	return false, errors.New("the register has its first entry")
}

// entry returns the entry of a primary that no register has decided.
func (r *Role) entry() Entry {
	e := Entry{Lineage: r.Lineage, Term: r.Term, Primary: r.Disk, Mode: r.Mode}
	if r.Mode == ModePaired {
		e.Standby = r.Peer
	}
	return e
}

// take takes the next term for a primary that the register names. The role has the claim before the register has the term,
// so that only an old copy of the role is behind the register.
func (b *beginning) take(ctx context.Context, entry Entry) (done bool, err error) {
	if err := b.Role.compare(b.stores); err != nil {
		return true, err
	}
	role := *b.Role
	// A primary that has served in the term of the register knows that no other promise is left.
	served := role.Term == entry.Term
	timing := b.Timing.with(entry.Lease)
	if served {
		timing = b.Timing
	}
	if entry.Primary != role.Disk { // the entry is from before a time without a register
		entry = role.entry()
	}
	role.Claimed = max(role.Term, role.Claimed, entry.Term) + 1
	if err := role.Save(); err != nil {
		return true, err
	}
	b.Role.Claimed = role.Claimed
	entry.Term, entry.Lease = role.Claimed, timing.Lease.Milliseconds()
	soon, cancel := context.WithTimeout(ctx, b.Timing.Lease)
	defer cancel()
	if _, err := b.Register.Swap(soon, b.version, entry); err != nil {
		return false, err
	}
	if !served {
		if err := backoff.Wait(ctx, b.seen+timing.outlastAlone()-b.Timing.Now()); err != nil { // P14
			return true, err
		}
	}
	role.Since, role.Term, role.Mode = role.reign(), role.Claimed, entry.Mode
	if entry.Mode == ModePaired {
		role.Peer = entry.Standby
	}
	if err := role.Save(); err != nil {
		return true, err
	}
	*b.Role = role
	return true, nil
}

// Unpair makes the primary of a stopped process alone, in the register and in its role: the disk of its standby is gone.
func Unpair(ctx context.Context, role *Role, register Register) error {
	entry, version, err := register.Read(ctx)
	switch {
	case errors.Is(err, ErrNoEntry): // the next start makes the first entry
	case err != nil:
		return err
	case entry.Lineage != role.Lineage || entry.Primary != role.Disk && (role.Role != RolePrimary || entry.Term >= role.Term):
		return ErrReplaced
	case entry.Term > max(role.Term, role.Claimed):
		return ErrOldCopy
	default:
		// The register of an earlier term was lost, or was not asked for some time. It keeps its term, so a start waits for its promises (P14).
		entry.Primary, entry.Mode, entry.Standby, entry.Since = role.Disk, ModeAlone, "", 0
		if _, err := register.Swap(ctx, version, entry); err != nil {
			return err
		}
		return role.unpair(func(*Role) {})
	}
	return role.Unpair()
}
