package pair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/objects"
)

// BeginConfig is the configuration of a start with a register.
type BeginConfig struct {
	// Role is the role of the data directory. Begin changes and saves it.
	Role     *Role
	Register Register
	Timing   Timing
	// Waiting is called with the reason when Begin has to wait for the register; nil for no call.
	Waiting func(error)
	Log     *zap.Logger
}

// beginning is a start with a register.
type beginning struct {
	BeginConfig
	version objects.Version // the newest version that was read
	seen    time.Duration   // the time of its first answer
}

// Begin asks the register for the role with which a process starts, before OpenPrimary or OpenStandby (P17). It waits until the
// register answers. A primary that the register names takes the next term; any other primary becomes a standby without data.
// A standby that the register names stays a standby, and Standby.Run ends its promotion.
func Begin(ctx context.Context, cfg BeginConfig) error {
	cfg.Timing = cfg.Timing.withClock()
	b := &beginning{BeginConfig: cfg}
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
			cfg.Log.Warn("this machine starts when the register answers", zap.Int("tries", failures), zap.Error(err))
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
	case entry.Primary != role.Disk && entry.Term < role.Term:
		return true, fmt.Errorf("%w: its term is %d, and the term of this primary is %d", ErrRegisterGone, entry.Term, role.Term)
	case entry.Primary != role.Disk:
		b.Log.Warn("the register names the other machine: this machine becomes its standby, and gets a new copy of all data", zap.Uint64("term", entry.Term))
		return true, role.Demote()
	}
	return b.take(ctx, entry)
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
	entry := Entry{Lineage: role.Lineage, Term: role.Term, Primary: role.Disk, Mode: role.Mode}
	if role.Mode == ModePaired {
		entry.Standby = role.Peer
	}
	if _, err := b.Register.Swap(ctx, "", entry); err != nil {
		return false, err
	}
	return false, errors.New("the register has its first entry")
}

// take takes the next term for a primary that the register names. The role has the claim before the register has the term,
// so that only an old copy of the role is behind the register.
func (b *beginning) take(ctx context.Context, entry Entry) (done bool, err error) {
	role := *b.Role
	// A primary that has served in the term of the register knows that no other promise is left.
	served := role.Term == entry.Term
	role.Claimed = max(role.Term, role.Claimed, entry.Term) + 1
	if err := role.Save(); err != nil {
		return true, err
	}
	b.Role.Claimed = role.Claimed
	entry.Term = role.Claimed
	soon, cancel := context.WithTimeout(ctx, b.Timing.Lease)
	defer cancel()
	if _, err := b.Register.Swap(soon, b.version, entry); err != nil {
		return false, err
	}
	if !served {
		if err := backoff.Wait(ctx, b.seen+b.Timing.outlastAlone()-b.Timing.Now()); err != nil { // P14
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
		return role.Unpair()
	}
	role.Claimed = 0
	return role.Unpair()
}
