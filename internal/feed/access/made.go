package access

import (
	"context"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// MadeRange is a range of one shard of the index of posts by time, within one bucket of time.
type MadeRange struct {
	Bucket string
	Shard  int
	// Low and High are post ids, "" for no bound. After is the last post that was read, "" for none.
	Low, High, After string
}

// Made reads a page of the index of posts by time, of limit posts at most. The index is eventually
// consistent.
func (a *Access) Made(ctx context.Context, of MadeRange, limit int) (refs []schema.PostRef, more bool, err error) {
	q := table.Query{Index: true, PK: schema.PostsMadePK(of.Bucket, of.Shard), Low: schema.PostSK(of.Low), PageSize: limit}
	if of.High != "" {
		q.High = schema.PostSK(of.High)
	}
	if of.After != "" {
		q.After = schema.PostSK(of.After)
	}
	for page, err := range a.Store.Query(ctx, q) {
		if err != nil {
			return nil, false, fault.Wrap("table", err)
		}
		for _, it := range page.Items {
			ref, err := schema.ParsePostRef(it)
			if err != nil {
				return nil, false, fault.Wrap("table", err)
			}
			refs = append(refs, ref)
		}
		if len(refs) > 0 || !page.More {
			return refs, page.More, nil
		}
	}
	return refs, false, nil
}

// EndOf returns the last id of a bucket of time.
func EndOf(bucket string) string { return bucket + id.Max[len(bucket):] }

// BucketAfter returns the next bucket of time.
func BucketAfter(bucket string) (string, error) {
	end, err := id.Time(EndOf(bucket))
	return schema.BucketOf(id.Floor(end.Add(time.Millisecond))), err
}
