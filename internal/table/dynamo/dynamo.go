// Package dynamo is the storage port on DynamoDB, by the AWS SDK. It is dull: it
// translates requests, answers and errors, splits batches, sends again what
// DynamoDB left unprocessed, and makes the table. It knows no item's meaning and
// must never decide what to do about a failed condition or a conflict.
//
// # What it takes care of
//
//   - A write is only sent again when that is safe. Unconditional puts, deletes
//     and sets are the same done twice, and a transaction carries a request token.
//     Any other write is sent again only if the first try certainly did nothing:
//     after a lost answer a second try of "if absent" would fail on its own work,
//     and one of "add 1" would count twice (I3, I4). Its outcome is unknown then:
//     UnavailableError.
//   - Nothing of a batch is dropped (I6): it ends written, or with an error.
//   - Requests in flight are bounded for each call (I9).
//   - BatchWriteItem and Query, of which a fan-out makes thousands, are first tried
//     without the SDK's middleware (byHand). Anything but the answer that is hoped
//     for makes the SDK do the call, so that a failure is the SDK's in every case.
//   - A failed condition is billed, but DynamoDB does not say how much: it is
//     computed from the old item.
package dynamo

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fanfare/internal/table"
)

const indexName = table.IndexName

// Store is one DynamoDB table.
type Store struct {
	// client sends again whatever failed; exact only what certainly was not done.
	client, exact *dynamodb.Client
	// hand makes the calls of a fan-out, nil if the SDK does.
	hand     *byHand
	name     string
	parallel int
	backoff  func(attempt int) time.Duration
}

var _ table.Store = (*Store)(nil)

// Option changes a Store from its defaults.
type Option func(*Store)

// WithParallel bounds the requests that one BatchGet or BatchWrite has in flight.
// The default is 8.
func WithParallel(n int) Option { return func(s *Store) { s.parallel = max(1, n) } }

// WithBackoff sets how long to wait before unprocessed parts of a batch are sent
// again, attempt counting from 1 since there was progress. The default is full
// jitter, doubling from 25 ms to 2 s.
func WithBackoff(backoff func(attempt int) time.Duration) Option {
	return func(s *Store) { s.backoff = backoff }
}

// WithSDKOnly has the SDK make all calls, to compare with.
func WithSDKOnly() Option { return func(s *Store) { s.hand = nil } }

// New makes a Store of the table name. Nothing is called yet: see Create and Ping.
func New(client *dynamodb.Client, name string, options ...Option) *Store {
	s := &Store{
		client: client,
		exact: dynamodb.New(client.Options(), func(o *dynamodb.Options) {
			o.Retryer = refusedOnly{o.Retryer}
		}),
		hand:     newByHand(client.Options(), name),
		name:     name,
		parallel: 8,
		backoff:  jitter,
	}
	for _, option := range options {
		option(s)
	}
	return s
}

func jitter(attempt int) time.Duration {
	const first, most = 25 * time.Millisecond, 2 * time.Second
	if attempt > 7 {
		return rand.N(most)
	}
	return rand.N(min(most, first<<max(0, attempt-1)))
}

// Get implements table.Store.
func (s *Store) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if err := in.Validate(); err != nil {
		return table.GetResult{}, err
	}
	var e expr
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.name, Key: encodeKey(in.Key), ConsistentRead: &in.Consistent,
		ProjectionExpression: e.projection(in.Project), ExpressionAttributeNames: e.names,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		return table.GetResult{}, s.fail(table.OpGet, err)
	}
	res := table.GetResult{Units: readUnits(out.ConsumedCapacity)}
	res.Item, err = decodeOptional(out.Item)
	return res, err
}

// Put implements table.Store.
func (s *Store) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	if err := in.Validate(); err != nil {
		return table.WriteResult{}, err
	}
	var e expr
	out, err := s.clientFor(in.If == nil).PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.name, Item: encodeItem(in.Item),
		ConditionExpression: e.condition(in.If), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		return table.WriteResult{}, s.failWrite(table.OpPut, in.Item.Key, err)
	}
	return table.WriteResult{Units: writeUnits(out.ConsumedCapacity)}, nil
}

// Update implements table.Store.
func (s *Store) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	if err := in.Validate(); err != nil {
		return table.WriteResult{}, err
	}
	var e expr
	req := &dynamodb.UpdateItemInput{
		TableName: &s.name, Key: encodeKey(in.Key),
		UpdateExpression: e.update(in), ConditionExpression: e.condition(in.If),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
	}
	req.ExpressionAttributeNames, req.ExpressionAttributeValues = e.names, e.values
	if in.ReturnNew {
		req.ReturnValues = types.ReturnValueAllNew
	}
	out, err := s.clientFor(in.If == nil && len(in.Add) == 0).UpdateItem(ctx, req)
	if err != nil {
		return table.WriteResult{}, s.failWrite(table.OpUpdate, in.Key, err)
	}
	res := table.WriteResult{Units: writeUnits(out.ConsumedCapacity)}
	if in.ReturnNew {
		res.Item, err = decodeOptional(out.Attributes)
	}
	return res, err
}

// Delete implements table.Store.
func (s *Store) Delete(ctx context.Context, in table.DeleteInput) (table.WriteResult, error) {
	if err := in.Validate(); err != nil {
		return table.WriteResult{}, err
	}
	var e expr
	out, err := s.clientFor(in.If == nil).DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.name, Key: encodeKey(in.Key),
		ConditionExpression: e.condition(in.If), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		return table.WriteResult{}, s.failWrite(table.OpDelete, in.Key, err)
	}
	return table.WriteResult{Units: writeUnits(out.ConsumedCapacity)}, nil
}

// clientFor picks the client for a write; repeatable says that doing it twice is
// the same as once.
func (s *Store) clientFor(repeatable bool) *dynamodb.Client {
	if repeatable {
		return s.client
	}
	return s.exact
}

func readUnits(c *types.ConsumedCapacity) table.Units {
	if c == nil {
		return table.Units{}
	}
	return table.Units{Read: aws.ToFloat64(c.CapacityUnits)}
}

func writeUnits(c *types.ConsumedCapacity) table.Units {
	if c == nil {
		return table.Units{}
	}
	return table.Units{Write: aws.ToFloat64(c.CapacityUnits)}
}
