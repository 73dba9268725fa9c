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

// BeginConfig is the configuration of the start of a machine of a pair.
type BeginConfig struct {
	// Role is the role of the data directory. Begin changes and saves it.
	Role     *Role
	Register Register
	// Address is the address of Register. Former is the register that the pair leaves, as Role.Leaves names it; nil for none.
	Address string
	Former  Register
	Timing  Timing
	// FS is the file system of the stores; the operating system's file system if nil. Queue and Table are the directories of the stores.
	FS           vfs.FS
	Queue, Table string
	// Ask asks the other machine what it is; nil if it cannot be asked.
	Ask func(context.Context) (Hello, error)
	// Waiting is called with the reason when Begin has to wait for the register; nil for no call.
	Waiting func(error)
	Log     *zap.Logger
}

// beginning is the start of a machine of a pair.
type beginning struct {
	BeginConfig
	stores  follow.Stores
	version objects.Version // the newest version that was read
	seen    time.Duration   // the time of its first answer
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
	case entry.Term < role.Term && (entry.Primary != role.Disk || entry.Term != role.Accepted): // P20
		return true, fmt.Errorf("%w: its term is %d, and the term of this primary is %d", ErrRegisterGone, entry.Term, role.Term)
	case entry.Primary != role.Disk:
		b.Log.Warn("the register names the other machine: this machine becomes its standby, and gets a new copy of all data", zap.Uint64("term", entry.Term))
		return true, role.Demote()
	}
	if err := b.alike(soon); err != nil {
		return true, err
	}
	if done, err := b.twin(soon, entry); done || err != nil {
		return done, err
	}
	return b.take(ctx, entry)
}

// alike returns ErrSameDisk if the other machine of the pair runs with a copy of this data directory: the copy must not take the place of its original.
// A machine that does not answer may be gone.
func (b *beginning) alike(ctx context.Context) error {
	if b.Ask == nil {
		return nil
	}
	peer, err := b.Ask(ctx)
	if err != nil {
		return nil //nolint:nilerr // a machine that is gone is no original
	}
	own := AskingHello(b.Role, 0, "")
	if end, err := b.stores.End(); err == nil {
		own.Queue, own.Table = end.Queue, end.Table
	}
	return SameDisk(own, peer)
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

// create makes the first entry. A machine that has used the register before has lost the entry, and must not guess it, nor must a machine that was
// paired without a register: its standby may have become the primary.
func (b *beginning) create(ctx context.Context) (done bool, err error) {
	role := b.Role
	switch {
	case role.Role == RoleStandby: // it follows its primary, and an operator may found the register
		return true, nil
	case role.moving(b.Address):
		return b.enter(ctx)
	case role.Claimed > 0 || role.Mode == ModePaired:
		return true, ErrRegisterGone
	}
	if err := role.compare(b.stores); err != nil {
		return true, err
	}
	entry := Entry{Lineage: role.Lineage, Term: role.Term, Primary: role.Disk, Mode: ModeAlone, Lease: b.Timing.Lease.Milliseconds()}
	if _, err := b.Register.Swap(ctx, "", entry); err != nil {
		return false, err
	}
	return false, errFirst
}

// errPromised is the reason of a start that waits for the end of the register's promise (P14).
var errPromised = errors.New("an earlier process may have a promise of the register: this start waits for its end, at most 5.25 leases")

// errFirst lets Begin read the register again.
var errFirst = errors.New("the register has its first entry")

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
	role.Claimed = max(role.Term, role.Claimed, entry.Term) + 1
	if err := role.Save(); err != nil {
		return true, err
	}
	b.Role.Claimed = role.Claimed
	entry.Term, entry.Lease = role.Claimed, timing.Lease.Milliseconds()
	if entry.Mode == ModeEnded { // a new pair begins
		entry.Mode = ModeAlone
	}
	soon, cancel := context.WithTimeout(ctx, b.Timing.Lease)
	defer cancel()
	if _, err := b.Register.Swap(soon, b.version, entry); err != nil {
		return false, err
	}
	if !served {
		if b.Waiting != nil {
			b.Waiting(errPromised)
		}
		if err := backoff.Wait(ctx, b.seen+timing.outlastAlone()-b.Timing.Now()); err != nil { // P14
			return true, err
		}
	}
	role.Since, role.Term, role.Mode, role.Accepted = role.reign(), role.Claimed, entry.Mode, 0
	if entry.Mode == ModePaired {
		role.Peer = entry.Standby
	}
	role.Move = role.Move.arrived()
	if err := role.Save(); err != nil {
		return true, err
	}
	*b.Role = role
	return true, nil
}

// Unpair ends the pair of the primary of a stopped process: the register has that the pair has ended, and the role that the machine is alone. The
// former standby cannot become the primary any more.
func Unpair(ctx context.Context, role *Role, register Register) error {
	if role.Role != RolePrimary {
		return errors.New("the data directory is of a standby, so it may lack answered writes: run fanfare unpair on the primary, or fanfare promote here")
	}
	entry, version, err := register.Read(ctx)
	switch {
	case errors.Is(err, ErrNoEntry): // the next start makes the first entry
		return role.unpair(0)
	case err != nil:
		return err
	case entry.Lineage != role.Lineage || entry.Primary != role.Disk && entry.Term >= role.Term:
		return ErrReplaced
	case entry.Term > max(role.Term, role.Claimed):
		return ErrOldCopy
	}
	// The register of a later term was lost. It keeps its term, so a start waits for its promises (P14).
	entry.Primary, entry.Mode, entry.Standby, entry.Since = role.Disk, ModeEnded, "", 0 // P24
	if _, err := register.Swap(ctx, version, entry); err != nil {
		return err
	}
	return role.unpair(entry.Term)
}

// AfterRestore gives the register of a lost pair to a restored data directory, which becomes the primary of another lineage. From then on the machines
// of the former pair are refused. It may be repeated.
func AfterRestore(ctx context.Context, dir string, register Register) error {
	role, err := LoadRole(dir)
	if err != nil {
		return err
	}
	if role == nil {
		role = NewRole(dir, RolePrimary)
	}
	entry, version, err := register.Read(ctx)
	switch {
	case errors.Is(err, ErrNoEntry):
		return fmt.Errorf("%w: start fanfare up, which makes the first one", err)
	case err != nil:
		return err
	case entry.Lineage == role.Lineage && entry.Primary == role.Disk:
		return nil
	case role.Role != RolePrimary || role.Mode != ModeAlone || role.Peer != "":
		return errors.New("the data directory was in a pair before, so it is not a restored one: start fanfare up with it, or restore into an empty directory")
	}
	role.Term, role.Claimed = entry.Term, entry.Term+1 // so that the start waits for the promises of the former pair (P14)
	if err := role.Save(); err != nil {
		return err
	}
	_, err = register.Swap(ctx, version, Entry{Lineage: role.Lineage, Term: role.Claimed, Primary: role.Disk, Mode: ModeAlone, Lease: entry.Lease})
	return err
}
