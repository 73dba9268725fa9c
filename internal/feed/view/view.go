// Package view computes views: posts and users with all that a page shows of them. It reads
// single posts and users, and adds views to pages of lists that package feed made.
//
// # It must never
//
//   - Write an item.
//   - Read a list itself: it adds to the lists of package feed.
package view

import (
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
)

// Views computes views. Its methods may be called at the same time.
type Views struct {
	access *access.Access
	feed   *feed.Service
}

// New returns the Views of a feed.
func New(a *access.Access, s *feed.Service) *Views { return &Views{a, s} }
