package dynamo

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"fanfare/internal/table"
)

// shortage returns the reason why DynamoDB refused a try for lack of capacity, "" for another error.
func shortage(err error) (reason table.Shortage, index bool) {
	if !throttled(err) {
		return "", false
	}
	var reasons []types.ThrottlingReason
	if e, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err); ok {
		reasons = e.ThrottlingReasons
	} else if e, ok := errors.AsType[*types.ThrottlingException](err); ok {
		reasons = e.ThrottlingReasons
	} else if e, ok := errors.AsType[*types.RequestLimitExceeded](err); ok {
		reasons = e.ThrottlingReasons
	}
	return mostTelling(reasons)
}

// limits returns the suffixes of DynamoDB's reasons. The most useful reason for an operator comes
// first: a limit of the table also explains a throttled partition, but a throttled partition does not
// explain a limit of the table.
func limits() []limit {
	return []limit{
		{"MaxOnDemandThroughputExceeded", table.ShortMaxOnDemand}, {"AccountLimitExceeded", table.ShortAccount},
		{"ProvisionedThroughputExceeded", table.ShortProvisioned}, {"KeyRangeThroughputExceeded", table.ShortKeyRange},
	}
}

type limit struct {
	end    string
	reason table.Shortage
}

// mostTelling returns the most useful of several reasons. index is true if the index has this
// reason. A reason consists of the resource, the kind of call and the limit:
// TableWriteKeyRangeThroughputExceeded.
func mostTelling(reasons []types.ThrottlingReason) (reason table.Shortage, index bool) {
	known := limits()
	best := len(known)
	for _, r := range reasons {
		if r.Reason == nil {
			continue
		}
		rest, ofIndex := strings.CutPrefix(*r.Reason, "Index")
		rest = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(rest, "Table"), "Read"), "Write")
		at := slices.IndexFunc(known, func(l limit) bool { return l.end == rest })
		if at < 0 {
			at = len(known)
		}
		switch {
		case at < best:
			best, index = at, ofIndex
		case at == best:
			index = index || ofIndex
		}
	}
	if best == len(known) {
		return table.ShortUnknown, index
	}
	return known[best].reason, index
}

// subject is the kind of a call, and the partition keys for its refusals: pk is a key of the table,
// and index is a key of the index if the call has one.
type subject struct {
	op        table.Op
	pk, index string
}

type subjectKey struct{}

// about returns the context for a call.
func about(ctx context.Context, of subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, of)
}

// aboutWrites returns the context for a call that writes items.
func aboutWrites(ctx context.Context, op table.Op, writes ...table.BatchWrite) context.Context {
	of := subject{op: op}
	for _, w := range writes {
		if of.pk == "" {
			of.pk = w.Key().PK
		}
		if of.index == "" && w.Put != nil {
			of.index = w.Put.Str(table.AttrGSI1PK)
		}
	}
	return about(ctx, of)
}

// aboutKeys returns the context for a batch of reads.
func aboutKeys(ctx context.Context, keys []map[string]types.AttributeValue) context.Context {
	of := subject{op: table.OpBatchGet}
	if pk, ok := keys[0][table.AttrPK].(*types.AttributeValueMemberS); ok {
		of.pk = pk.Value
	}
	return about(ctx, of)
}

// note reports a refusal of the call with the context ctx to the observer.
func (s *Store) note(ctx context.Context, reason table.Shortage, index bool) {
	of, ok := ctx.Value(subjectKey{}).(subject)
	if !ok || s.observe == nil {
		return
	}
	if index && of.index != "" {
		of.pk = of.index
	}
	s.observe(table.Refusal{Op: of.op, Reason: reason, Index: index, PK: of.pk})
}

// watch notes each refused try, because the SDK retries most refused tries, and the SDK's
// caller sees only the last try.
func (s *Store) watch(o *dynamodb.Options) {
	watcher := middleware.FinalizeMiddlewareFunc("Refusals", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleFinalize(ctx, in)
		if reason, index := shortage(err); reason != "" {
			s.note(ctx, reason, index)
		}
		return out, metadata, err
	})
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(watcher, "Retry", middleware.After)
	})
}
