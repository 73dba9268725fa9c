// Package removal removes users and all that they made. A removal begins with an event, the durable
// commit: the profile goes at once, and workers remove the rest by Forget. A user may return with a
// new profile; feed/lives.go has the rules that tell the lives under one id apart.
//
// # It must never
//
//   - Take a thing of a new life: sweep.each reads a page before the profile.
//   - End a block or a mute of the removed user by another user: these are kept (feed/kept.go).
//   - Write an item itself, except to delete one that belongs to nothing. Package feed ends
//     posts, follows, mutes, blocks and comments as the calls of their users do.
//
// # The invariants it keeps
//
//   - I2: homes leave out posts and follows of the user at once, by the transactions of package feed.
//   - I3: a like is taken back by an event, which an aggregator counts.
//   - I4: counts are exact, because each thing goes in the transaction that counts it.
//   - I5: the event is sent before the profile goes, so an accepted removal is not lost.
//   - I12: all things of a new life stay.
package removal

import (
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
)

// Removals removes users. Its methods may be called at the same time.
type Removals struct {
	access *access.Access
	feed   *feed.Service
}

// New returns the Removals of a feed.
func New(a *access.Access, s *feed.Service) *Removals { return &Removals{a, s} }
