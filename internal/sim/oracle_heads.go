package sim

import (
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// An API shares the newest posts of pulled authors among the first pages of homes for headAge
// (docs/HYBRID.md). So a first page may lack a post that has been in its author's list for less
// than headAge, and one API may show the post while another API does not show it yet. A post with
// an entry in the home is never late, so a user's own posts are never late. Posts below a first
// page, and the posts of pulled homes, are never late, either.

// listing is the moment at which a post entered its author's list.
type listing struct {
	author string
	at     time.Time
}

// sawPost handles a write of an item of an author's list.
func (w *World) sawPost(key table.Key, it *table.Item) {
	if it == nil || class("", key.PK) != " post" {
		return
	}
	post, err := schema.ParsePost(*it)
	if _, known := w.listed[post.ID]; err == nil && !known {
		w.listed[post.ID] = listing{post.Author, time.Now()}
	}
}

// late returns the posts that a first page of user's home may lack if api begins to read the page
// now.
func (w *World) late(api *Proc, user string, pull bool) map[string]bool {
	late, age := map[string]bool{}, headAge
	if !w.shape.Heads || w.shape.Limit == 0 || pull {
		return late
	}
	// The clock of a real process never steps back. Clocks here do, and then shared lists live
	// longer.
	if back := 2 * mostSkew; time.Since(api.back) < age+back {
		age += back
	}
	for post, of := range w.listed {
		entry := table.Key{PK: schema.TimelinePK(user), SK: schema.EntrySK(post, of.author)}
		if time.Since(of.at) < age && w.items[entry] == nil {
			late[post] = true
		}
	}
	return late
}
