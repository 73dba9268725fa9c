package schema

import (
	"time"

	"fanfare/internal/table"
)

// Block is one user's side of the blocks between two users. The other user's side has the same facts
// in reverse. The item exists while at least one of the two users blocks the other user.
type Block struct {
	User, Other string
	// Since is the time at which User blocked Other, and By is the time at which Other blocked User. A
	// zero time means no block.
	Since, By time.Time
}

// Item encodes b. At least one of the times of b must be set.
func (b Block) Item() table.Item {
	it := table.Item{Key: BlockKey(b.User, b.Other)}
	if !b.Since.IsZero() {
		it.Attrs = append(it.Attrs, millis(AttrSince, b.Since))
	}
	if !b.By.IsZero() {
		it.Attrs = append(it.Attrs, millis(AttrBlockedBy, b.By))
	}
	return it
}

// BlockedSince returns the time since which a side's user is blocked, zero if the user is not blocked.
func BlockedSince(side table.Item) time.Time { return timeOf(&side, AttrBlockedBy) }

// ParseBlock decodes one side of the blocks between two users.
func ParseBlock(it table.Item) (Block, error) {
	user, ok := userOf(it.Key.PK, "#block")
	other, ok2 := UserOfSK(it.Key.SK)
	b := Block{User: user, Other: other, Since: timeOf(&it, AttrSince), By: timeOf(&it, AttrBlockedBy)}
	if !ok || !ok2 || b.Since.IsZero() && b.By.IsZero() {
		return Block{}, &ParseError{it.Key, "not a block"}
	}
	return b, nil
}

// BlocksItem encodes the note that a user blocked, or was blocked, at least once.
func BlocksItem(user string, since time.Time) table.Item {
	return table.Item{Key: HasBlocksKey(user), Attrs: []table.Attr{millis(AttrSince, since)}}
}
