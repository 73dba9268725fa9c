package removal

import (
	"context"
	"errors"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// Forgotten is the result of one Forget.
type Forgotten struct {
	// Posts and the fields after Posts count the removed records. Own are mutes, bookmarks and read markers.
	Posts, Follows, Own, Blocks, Comments, Likes, Notices int
	// Wait is the time until the next walk over the likes, whose take-backs were sent, 0 for none.
	Wait time.Duration
	// Left is the time at which the profile was removed.
	Left time.Time
	// Overtaken means that Forget removed no record, because a newer event for the same user exists.
	Overtaken bool
}

// Sum returns the number of all removed records.
func (f Forgotten) Sum() int {
	return f.Posts + f.Follows + f.Own + f.Blocks + f.Comments + f.Likes + f.Notices
}

// errEnough ends a walk of Forget after the removal of the maximum number of records.
var errEnough = errors.New("enough removed")

// sweep is the state of one Forget.
type sweep struct {
	r           *Removals
	user, event string
	most        int
	done        *Forgotten
}

// errBehind ends the walk over a range, because no later record of the range is of a former life.
var errBehind = errors.New("nothing more of a former life")

// each calls take with the records of a range, in pages. each reads a page, and then the highest id of
// a former life. A record in a page that was read before the new profile existed is of a former life,
// even if a concurrent call made the record's id above the removal's id. The reverse order would
// remove records of the new life.
func (sw *sweep) each(ctx context.Context, q table.Query, take func(it table.Item, former string) error) error {
	for page, err := range sw.r.access.Store.Query(ctx, q) {
		if err != nil {
			return fault.Wrap("table", err)
		}
		if len(page.Items) == 0 {
			continue
		}
		former, err := sw.former(ctx)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			if err := take(it, former); errors.Is(err, errBehind) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// former returns the highest id that a record of a former life may have now. Without a profile, any id
// may be of a former life.
func (sw *sweep) former(ctx context.Context) (string, error) {
	it, err := sw.r.access.Get(ctx, schema.ProfileKey(sw.user), true, schema.AttrAfter)
	if err != nil || it == nil {
		return id.Max, err
	}
	return max(it.Str(schema.AttrAfter), sw.event), nil
}

// drop deletes an item that belongs to nothing, as a purge does.
func (sw *sweep) drop(ctx context.Context, key table.Key) error {
	_, err := sw.r.access.Store.BatchWrite(ctx, []table.BatchWrite{{Delete: key}})
	return fault.Wrap("table", err)
}

// took counts a record in n if gone is true, and ends a sweep that has removed the maximum number of
// records.
func (sw *sweep) took(n *int, gone bool) error {
	if gone {
		*n++
	}
	if sw.done.Sum() >= sw.most {
		return errEnough
	}
	return nil
}
