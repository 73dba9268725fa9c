package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/backoff"
	"fanfare/internal/panics"
	"fanfare/internal/table"
)

// BatchGet implements table.Store.
func (s *Store) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	if err := in.Validate(); err != nil {
		return table.BatchGetResult{}, err
	}
	chunks := slices.Collect(slices.Chunk(in.Keys, table.MaxBatchGet))
	results := make([]table.BatchGetResult, len(chunks))
	err := s.each(ctx, len(chunks), func(ctx context.Context, i int) error {
		return s.getChunk(ctx, in, chunks[i], &results[i])
	})
	var all table.BatchGetResult
	for _, res := range results {
		all.Units = all.Units.Plus(res.Units)
		if err == nil {
			all.Items = append(all.Items, res.Items...)
		}
	}
	return all, err
}

// getChunk reads all keys of one request. res has the items and units of the reads even if getChunk fails.
func (s *Store) getChunk(ctx context.Context, in table.BatchGetInput, keys []table.Key, res *table.BatchGetResult) error {
	var e expr
	want := types.KeysAndAttributes{
		ConsistentRead:       &in.Consistent,
		ProjectionExpression: e.projection(in.Project), ExpressionAttributeNames: e.names,
	}
	for _, k := range keys {
		want.Keys = append(want.Keys, encodeKey(k))
	}
	return s.untilDone(ctx, table.OpBatchGet, len(want.Keys), func() (int, error) {
		ctx := aboutKeys(ctx, want.Keys)
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems:           map[string]types.KeysAndAttributes{s.name: want},
			ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			return len(want.Keys), err
		}
		for i := range out.ConsumedCapacity {
			res.Units = res.Units.Plus(readUnits(&out.ConsumedCapacity[i]))
		}
		items, err := decodeItems(out.Responses[s.name])
		if err != nil {
			return len(want.Keys), err
		}
		res.Items = append(res.Items, items...)
		if want.Keys = out.UnprocessedKeys[s.name].Keys; len(want.Keys) > 0 {
			s.note(aboutKeys(ctx, want.Keys), table.ShortUnknown, false)
		}
		return len(want.Keys), nil
	})
}

// BatchWrite implements table.Store.
func (s *Store) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	if err := table.ValidateBatch(writes); err != nil {
		return table.WriteResult{}, err
	}
	chunks := slices.Collect(slices.Chunk(writes, table.MaxBatchWrite))
	results := make([]table.WriteResult, len(chunks))
	err := s.each(ctx, len(chunks), func(ctx context.Context, i int) error {
		return s.writeChunk(ctx, chunks[i], &results[i])
	})
	var all table.WriteResult
	for _, res := range results {
		all = all.Plus(res)
	}
	return all, err
}

// writeChunk does all writes of one request. res has the units and refusals of the writes even
// if writeChunk fails.
func (s *Store) writeChunk(ctx context.Context, writes []table.BatchWrite, res *table.WriteResult) error {
	left := writes
	return s.untilDone(ctx, table.OpBatchWrite, len(left), func() (int, error) {
		out, err := s.batchWrite(aboutWrites(ctx, table.OpBatchWrite, left...), left)
		if err != nil {
			refuse(res, left, refusals(err))
			return len(left), err
		}
		for i := range out.ConsumedCapacity {
			res.Units = res.Units.Plus(writeUnits(&out.ConsumedCapacity[i]))
		}
		refuse(res, left, refusedTries(out.ResultMetadata))
		left, err = unprocessed(left, out.UnprocessedItems[s.name])
		if len(left) > 0 {
			refuse(res, left, 1)
			s.note(aboutWrites(ctx, table.OpBatchWrite, left...), table.ShortUnknown, false)
		}
		return len(left), err
	})
}

// refuse adds to res that the writes were refused so many times.
func refuse(res *table.WriteResult, writes []table.BatchWrite, times int) {
	for range times {
		for _, w := range writes {
			res.Refused = append(res.Refused, w.Key().PK)
		}
	}
}

// batchWrite makes one request.
func (s *Store) batchWrite(ctx context.Context, writes []table.BatchWrite) (*dynamodb.BatchWriteItemOutput, error) {
	in := &dynamodb.BatchWriteItemInput{
		RequestItems:           map[string][]types.WriteRequest{s.name: nil},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	return s.client.BatchWriteItem(ctx, in, func(o *dynamodb.Options) {
		o.Protocol = batchProtocol{o.Protocol, s.name, writes}
	})
}

// unprocessed returns the writes that a reply reports as unprocessed. It fails if one of these
// writes was not sent, because then another write would be lost.
func unprocessed(sent []table.BatchWrite, requests []types.WriteRequest) ([]table.BatchWrite, error) {
	left := make([]table.BatchWrite, 0, len(requests))
	for _, r := range requests {
		var item map[string]types.AttributeValue
		if r.PutRequest != nil {
			item = r.PutRequest.Item
		} else if r.DeleteRequest != nil {
			item = r.DeleteRequest.Key
		}
		it, err := decodeItem(item)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(sent, func(w table.BatchWrite) bool { return w.Key() == it.Key })
		if i < 0 {
			return nil, fmt.Errorf("table: batch_write: %s / %s was left unprocessed, but not sent", it.Key.PK, it.Key.SK)
		}
		left = append(left, sent[i])
	}
	return left, nil
}

// each runs the parts of a batch. Some parts run at the same time. The first error stops the remaining parts.
func (s *Store) each(ctx context.Context, n int, part func(ctx context.Context, i int) error) error {
	if n == 1 || s.parallel == 1 {
		for i := range n {
			if err := part(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(n, s.parallel) { // each goroutine does many parts, because its stack has grown
		group.Go(func() error {
			return panics.Catch(func() error {
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					if err := part(ctx, int(i)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return group.Wait()
}

// maxStalled is the number of consecutive tries without an effect, for about a second, after which a batch fails.
const maxStalled = 6

// untilDone calls send until none of n parts is left unprocessed. If DynamoDB runs out of
// capacity during a request, it answers 200 with the unprocessed parts. If it has no capacity
// at all, it answers with an error. untilDone handles both answers in the same way. After
// maxStalled tries without an effect, it fails with an UnavailableError. So a bulk writer
// notices the throttling and can send less at once (the fan-out halves its limit).
func (s *Store) untilDone(ctx context.Context, op table.Op, n int, send func() (left int, err error)) error {
	for attempt := 1; ; attempt++ {
		left, err := send()
		switch {
		case err != nil && !throttled(err):
			return s.fail(op, err)
		case left == 0:
			return nil
		case left < n:
			n, attempt = left, 1
		case attempt == maxStalled:
			reason, index := shortage(err)
			return &table.UnavailableError{
				Op: string(op), Err: &stalledError{n, err}, Reason: cmp.Or(reason, table.ShortUnknown), Index: index, Undone: reads(op),
			}
		}
		if err := backoff.Wait(ctx, s.backoff(attempt)); err != nil {
			return s.fail(op, err)
		}
	}
}

// stalledError is the failure of a batch with unprocessed parts, for lack of capacity.
type stalledError struct {
	left int
	err  error // nil if DynamoDB reported the parts as unprocessed
}

func (e *stalledError) Error() string {
	text := fmt.Sprintf("throttled: %d parts of a batch are left after %d tries without progress", e.left, maxStalled)
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *stalledError) Unwrap() error { return e.err }
