package access

import (
	"context"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// MadeRange is a range of the index of posts by time: a part of one shard within one bucket of time.
type MadeRange struct {
	Bucket string
	Shard  int
	// Low and High are post ids, "" for no bound. After is the last post already read, "" for none.
	Low, High, After string
}

// MadePage is a page of the index of posts by time. The index also contains the notes of removals.
// Changes are of the log of changes, which the index does not contain.
type MadePage struct {
	Posts    []schema.PostRef
	Removals []schema.Removal
	Changes  []schema.Change
	More     bool
}

// Made reads a page of the index of posts by time, with limit posts at most. The index is eventually
// consistent. A page without posts is the last page.
func (a *Access) Made(ctx context.Context, of MadeRange, limit int) (made MadePage, err error) {
	q := table.Query{Index: true, PK: schema.PostsMadePK(of.Bucket, of.Shard), Low: schema.PostSK(of.Low), PageSize: limit}
	if of.High != "" {
		q.High = schema.PostSK(of.High)
	}
	if of.After != "" {
		q.After = schema.PostSK(of.After)
	}
	for page, err := range a.Store.Query(ctx, q) {
		if err != nil {
			return MadePage{}, fault.Wrap("table", err)
		}
		for _, it := range page.Items {
			if removal, ok := schema.ParseRemoval(it); ok {
				made.Removals = append(made.Removals, removal)
				continue
			}
			ref, err := schema.ParsePostRef(it)
			if err != nil {
				return MadePage{}, fault.Wrap("table", err)
			}
			made.Posts = append(made.Posts, ref)
		}
		if made.More = page.More; len(made.Posts) > 0 || !page.More {
			break
		}
	}
	return made, nil
}

// Changes reads the log of changes in one bucket of time from an event id on, up to the number most.
func (a *Access) Changes(ctx context.Context, bucket, low string, most int) (page.Stretch[schema.Change], error) {
	q := table.Query{PK: schema.ChangesPK(bucket), Low: schema.ChangeSK(low)}
	return page.Collect(ctx, a.Store, q, most, page.Refill{}, page.Each(func(it table.Item) (schema.Change, bool, error) {
		c, err := schema.ParseChange(it)
		return c, true, err
	}))
}

// EndOf returns the last id of a bucket of time.
func EndOf(bucket string) string { return bucket + id.Max[len(bucket):] }

// BucketAfter returns the next bucket of time.
func BucketAfter(bucket string) (string, error) {
	end, err := id.Time(EndOf(bucket))
	return schema.BucketOf(id.Floor(end.Add(time.Millisecond))), err
}
