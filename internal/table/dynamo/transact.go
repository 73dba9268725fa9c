package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fanfare/internal/awsclient"
	"fanfare/internal/table"
)

// Transact implements table.Store. The SDK gives each call a ClientRequestToken before its
// first try, so all tries have the same token.
func (s *Store) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if err := in.Validate(); err != nil {
		return table.WriteResult{}, err
	}
	req := &dynamodb.TransactWriteItemsInput{
		TransactItems:          make([]types.TransactWriteItem, len(in.Ops)),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	of := subject{op: table.OpTransact, pk: in.Ops[0].Key().PK}
	for i, op := range in.Ops {
		req.TransactItems[i] = s.encodeOp(op)
		if op.Put != nil {
			of.index = cmp.Or(of.index, op.Put.Item.Str(table.AttrGSI1PK))
		}
	}
	ctx = about(ctx, of)
	out, err := s.client.TransactWriteItems(ctx, req)
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		err := cancelledError(in.Ops, cancelled)
		s.noteCancelled(ctx, err)
		return table.WriteResult{}, err
	}
	if err != nil {
		return table.WriteResult{Refused: refusedOps(in.Ops, refusals(err))}, s.fail(table.OpTransact, err)
	}
	res := table.WriteResult{Refused: refusedOps(in.Ops, refusedTries(out.ResultMetadata))}
	for _, c := range out.ConsumedCapacity {
		// If the first try succeeded but its answer was lost, its retry is billed as a read.
		units := table.Units{Read: aws.ToFloat64(c.ReadCapacityUnits), Write: aws.ToFloat64(c.WriteCapacityUnits)}
		if units == (table.Units{}) {
			units.Write = aws.ToFloat64(c.CapacityUnits)
		}
		res.Units = res.Units.Plus(units)
	}
	return res, nil
}

// refusedOps returns the partition keys of the operations, each key as many times as times.
func refusedOps(ops []table.TransactOp, times int) (keys []string) {
	for range times {
		for _, op := range ops {
			keys = append(keys, op.Key().PK)
		}
	}
	return keys
}

// noteCancelled notes that a transaction was cancelled for lack of capacity. Such an error names no reason.
func (s *Store) noteCancelled(ctx context.Context, err error) {
	cancelled, ok := errors.AsType[*table.CancelledError](err)
	if !ok {
		return
	}
	for _, r := range cancelled.Reasons {
		if r.Reason == table.CancelThrottled {
			s.note(about(ctx, subject{op: table.OpTransact, pk: r.Key.PK}), table.ShortUnknown, false)
			return
		}
	}
}

func (s *Store) encodeOp(op table.TransactOp) types.TransactWriteItem {
	const allOld = types.ReturnValuesOnConditionCheckFailureAllOld
	var e expr
	switch {
	case op.Put != nil:
		cond := e.condition(op.Put.If)
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &s.name, Item: encodeItem(op.Put.Item), ConditionExpression: cond,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
			ReturnValuesOnConditionCheckFailure: allOld,
		}}
	case op.Update != nil:
		update, cond := e.update(*op.Update), e.condition(op.Update.If)
		return types.TransactWriteItem{Update: &types.Update{
			TableName: &s.name, Key: encodeKey(op.Update.Key), UpdateExpression: update, ConditionExpression: cond,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
			ReturnValuesOnConditionCheckFailure: allOld,
		}}
	case op.Delete != nil:
		cond := e.condition(op.Delete.If)
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &s.name, Key: encodeKey(op.Delete.Key), ConditionExpression: cond,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
			ReturnValuesOnConditionCheckFailure: allOld,
		}}
	}
	cond := e.condition(op.Check.If)
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &s.name, Key: encodeKey(op.Check.Key), ConditionExpression: cond,
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: allOld,
	}}
}

// cancelledError translates a cancellation. The answer does not contain the cost, so each
// operation counts as two failed writes. The answer also lacks the items whose conditions held,
// so the cost is computed as if each of these items were smaller than the new item.
func cancelledError(ops []table.TransactOp, e *types.TransactionCanceledException) error {
	if len(e.CancellationReasons) != len(ops) {
		return fmt.Errorf("table: transaction of %d operations cancelled for %d reasons: %w",
			len(ops), len(e.CancellationReasons), e)
	}
	out := &table.CancelledError{Reasons: make([]table.CancelledOp, len(ops))}
	for i, reason := range e.CancellationReasons {
		r := &out.Reasons[i]
		r.Key = ops[i].Key()
		switch code := aws.ToString(reason.Code); code {
		case "", "None":
		case "ConditionalCheckFailed":
			r.Reason = table.CancelCondition
		case "TransactionConflict":
			r.Reason = table.CancelConflict
		case "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded":
			r.Reason = table.CancelThrottled
		case "ValidationError", "ItemCollectionSizeLimitExceeded":
			return &table.InvalidError{Problem: fmt.Sprintf("operation %d of a transaction: %s: %s",
				i, code, aws.ToString(reason.Message))}
		default:
			if awsclient.TransientCode(code) {
				return &table.UnavailableError{Op: string(table.OpTransact), Err: fmt.Errorf("operation %d: %s: %w", i, code, e)}
			}
			return fmt.Errorf("table: operation %d cancelled its transaction: %s: %w", i, code, e)
		}
		var err error
		if r.Old, err = decodeOptional(reason.Item); err != nil {
			return err
		}
		cost := table.FailedCost(ops[i], r.Old)
		out.Units = out.Units.Plus(cost).Plus(cost)
	}
	return out
}
