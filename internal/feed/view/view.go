// Package view computes views: posts and users with all data that a page shows about them. Package
// view reads single posts and users, and adds views to pages of lists that package feed made.
//
// # It must never
//
//   - Write an item.
//   - Read a list itself: package view adds to the lists of package feed.
package view

import (
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
)

// Views computes views. Its methods are safe for concurrent use.
type Views struct {
	access *access.Access
	feed   *feed.Service
}

// New returns the Views of a feed.
func New(a *access.Access, s *feed.Service) *Views { return &Views{a, s} }
