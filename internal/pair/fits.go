package pair

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/datadir"
	"fanfare/internal/follow"
	"fanfare/internal/stream"
)

const (
	// clockWarned is the difference of the clocks above which the primary logs a warning.
	clockWarned = time.Second
	// clockRefused is the difference of the clocks above which two machines do not become a pair.
	clockRefused = time.Minute
)

var (
	// ErrSecret means that dev tokens of one machine would not be valid on the other machine.
	ErrSecret = errors.New("FANFARE_DEV_SECRET differs between the two machines, so a promotion would end all tokens: set the same secret on both, or on neither")
	// ErrClock means that the clocks of the two machines differ by more than a minute.
	ErrClock = errors.New("the clocks of the two machines differ by more than a minute: set both by NTP, then the machines pair by themselves")
)

// SettingError means that a setting on which a promise of the pair depends differs between the two machines.
type SettingError struct{ Name, Own, Peer string }

// Error implements error.
func (e *SettingError) Error() string {
	return fmt.Sprintf("%s is %s on this machine and %s on the other machine: stop both, and start both with the same value", e.Name, e.Own, e.Peer)
}

// SameDisk returns why two machines with one disk cannot be a pair, nil if their disks differ. It names the machine whose logs end later,
// if both hellos have the ends.
func SameDisk(own, peer Hello) error {
	switch at, other := own.position(), peer.position(); {
	case own.Disk != peer.Disk || own.Disk == "":
		return nil
	case own.Process == peer.Process && own.Process != "":
		return ErrSelf
	case at == (stream.Position{}) || other == (stream.Position{}):
		return ErrSameDisk
	case at == other:
		return fmt.Errorf("%w (the logs of both end at the same place)", ErrSameDisk)
	case own.Term >= peer.Term && at.Covers(other):
		return fmt.Errorf("%w (this machine has more)", ErrSameDisk)
	case own.Term <= peer.Term && other.Covers(at):
		return fmt.Errorf("%w (the other machine has more)", ErrSameDisk)
	default:
		return fmt.Errorf("%w (each has writes that the other one lacks: keep both directories)", ErrSameDisk)
	}
}

// CopyOf returns SameDisk for the data directory of a role, which no process has opened, and a peer.
func (r *Role) CopyOf(peer Hello) error {
	own, dir := AskingHello(r, 0, ""), filepath.Dir(r.path)
	end, err := follow.Stores{FS: vfs.Default, Queue: filepath.Join(dir, datadir.Queue), Table: filepath.Join(dir, datadir.Table)}.End()
	if err == nil {
		own.Queue, own.Table = end.Queue, end.Table
	}
	return SameDisk(own, peer)
}

// proof returns a value that only a machine with the secret can make, and that does not show the secret. Each disk has
// another proof. Without a secret the proof is empty.
func proof(secret, disk string) []byte {
	if secret == "" {
		return nil
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("the dev secret of disk " + disk))
	return mac.Sum(nil)
}

// proves adds the proof of the own secret to a hello.
func (h Hello) proves(secret string) Hello {
	h.Secret, h.secret = proof(secret, h.Disk), secret
	return h
}

// sameSecret reports whether the machine of the hello peer has the secret of the machine of the hello h.
func (h Hello) sameSecret(peer Hello) bool {
	return hmac.Equal(peer.Secret, proof(h.secret, peer.Disk))
}

// ahead returns how far the clock of the peer is ahead, up to the time on the way. Only people use the difference: no rule
// of a pair compares clocks.
func (h Hello) ahead() time.Duration { return time.UnixMilli(h.Clock).Sub(h.arrived) }

// clockFits returns an error if the clocks differ too much for the beginning of a pair. A pair that exists continues,
// because a wrong clock must not stop its service.
func clockFits(own, peer Hello) error {
	if ahead := peer.ahead(); own.Mode == ModeAlone && ahead.Abs() > clockRefused {
		return fmt.Errorf("%w (%v)", ErrClock, ahead.Round(time.Second))
	}
	return nil
}

// Answer tells a machine that has connected what this machine is. Without an answer, two standbys would wait for each other
// and show no reason.
func (s *Standby) Answer(ctx context.Context, conn net.Conn) (err error) {
	defer func() { err = errors.Join(err, ignoreClosed(conn.Close())) }()
	defer context.AfterFunc(ctx, func() { conn.Close() })() //nolint:errcheck // reads and writes fail then
	s.mu.Lock()
	own := s.hello()
	s.mu.Unlock()
	_, err = greet(conn, own)
	return err
}
