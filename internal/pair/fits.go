package pair

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"time"
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
