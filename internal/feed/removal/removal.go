// Package removal removes users and all their records. A removal begins with an event, the durable
// commit. The profile is deleted at once, and workers remove the rest by Forget. A user may return
// with a new profile; feed/lives.go has the rules that distinguish the lives under one id.
//
// # It must never
//
//   - Remove a record of a new life: sweep.each reads a page before the profile.
//   - End another user's block or mute of the removed user: such a block or mute is kept (feed/kept.go).
//   - Write an item itself, except to delete an item that belongs to nothing. Package feed ends
//     posts, follows, mutes, blocks and comments as the calls of their users do.
//
// # The invariants it keeps
//
//   - I2: homes leave out posts and follows of the user at once, by the transactions of package feed.
//   - I3: a like is taken back by an event, which an aggregator counts.
//   - I4: counts are exact, because each record is deleted in the transaction that changes its count.
//   - I5: the event is sent before the profile is deleted, so an accepted removal is not lost.
//   - I12: all records of a new life stay.
package removal

import (
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
)

// Removals removes users. Its methods are safe for concurrent use.
type Removals struct {
	access    *access.Access
	feed      *feed.Service
	takenBack *takenBack
}

// New returns the Removals of a feed.
func New(a *access.Access, s *feed.Service) *Removals { return &Removals{a, s, newTakenBack()} }
