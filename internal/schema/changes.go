package schema

import (
	"strings"
	"time"

	"fanfare/internal/table"
)

// changeKept is the time for which the log of changes keeps a change. Live homes read the newest minute.
const changeKept = time.Hour

// Change is a deletion or an edit of a post, in the log of changes: processes with live homes read there
// what other processes have changed (docs/decisions/0023).
type Change struct {
	// Event is a new id of the time of the change.
	Event, Post, Author string
	Deleted             bool
	// Referred means that a repost or a quote of the post may exist.
	Referred bool
}

// ChangesPK returns the partition of the changes in one bucket of time. Its sort keys are ChangeSK.
func ChangesPK(bucket string) string { return "changed#" + bucket }

// ChangeSK returns the sort key of a change.
func ChangeSK(event string) string { return "e#" + event }

func (c *Change) fields(of *codec) *codec {
	of.str(AttrKeyPost, &c.Post, always)
	of.str(AttrAuthor, &c.Author, always)
	of.flag(AttrDeleted, &c.Deleted)
	of.flag(AttrReferred, &c.Referred)
	return of
}

// Item encodes a change that is made now.
func (c Change) Item(now time.Time) table.Item {
	return table.Item{
		Key:   table.Key{PK: ChangesPK(BucketOf(c.Event)), SK: ChangeSK(c.Event)},
		Attrs: appendTTL(c.fields(writer()).attrs, now.Add(changeKept)),
	}
}

// ParseChange decodes a change.
func ParseChange(it table.Item) (Change, error) {
	event, ok := strings.CutPrefix(it.Key.SK, ChangeSK(""))
	if !ok || it.Key.PK != ChangesPK(BucketOf(event)) {
		return Change{}, &ParseError{it.Key, "not a change of a post"}
	}
	c := Change{Event: event}
	c.fields(reader(it))
	return c, nil
}
