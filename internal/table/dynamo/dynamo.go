// Package dynamo is the storage port on DynamoDB, with the AWS SDK. It translates requests,
// answers and errors, splits batches, sends unprocessed parts again, and creates the table. The
// package must never know the meaning of an item, nor decide how to continue after a failed
// condition or a conflict.
//
// # Rules
//
//   - A write is retried only if that is safe. Unconditional puts, deletes and sets may
//     be done twice, and a transaction has a request token. Any other write is retried
//     only if the first try certainly had no effect: after a lost answer, a retry of "if
//     absent" would fail because of its own first try, and a retry of "add 1" would count
//     twice (I3, I4). The outcome of such a write is unknown: UnavailableError.
//   - No part of a batch is dropped (I6): the batch ends written, or with an error.
//   - Requests in flight are bounded for each call (I9).
//   - The SDK makes every call. Only the JSON of BatchWriteItem is our own (encode.go).
//   - A failed condition is billed, but DynamoDB does not return its cost. The cost is
//     computed from the old item.
package dynamo

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"fanfare/internal/awsclient"
	"fanfare/internal/backoff"
	"fanfare/internal/table"
)

const indexName = table.IndexName

// Store is one DynamoDB table.
type Store struct {
	// client retries a failed call. exact retries a failed call only if the call certainly had no effect.
	client, exact *calls
	name          string
	// place is the region or endpoint of the table, for errors.
	place    string
	parallel int
	backoff  func(attempt int) time.Duration
	poll     time.Duration
	refusals awsclient.Refusals
	// observe, if not nil, is called with each try that DynamoDB refused for lack of capacity.
	observe func(table.Refusal)
}

var _ table.Store = (*Store)(nil)

// Option changes a Store from its defaults.
type Option func(*Store)

// WithParallel bounds the number of requests that one BatchGet or BatchWrite has in flight. The default is 8.
func WithParallel(n int) Option { return func(s *Store) { s.parallel = max(1, n) } }

// WithBackoff sets the wait before unprocessed parts of a batch are sent again. attempt counts
// the tries since the last progress, beginning with 1. The default is full jitter, doubling
// from 25 ms to 2 s.
func WithBackoff(backoff func(attempt int) time.Duration) Option {
	return func(s *Store) { s.backoff = backoff }
}

// WithPoll sets the wait between Create's calls of Describe while the table is being created. The default is half a
// second.
func WithPoll(interval time.Duration) Option { return func(s *Store) { s.poll = interval } }

// WithRefusals sets an observer of the tries that DynamoDB refuses for lack of capacity, and of the
// unprocessed parts of batches. The calls of observe may be concurrent, and observe must return
// quickly.
func WithRefusals(observe func(table.Refusal)) Option { return func(s *Store) { s.observe = observe } }

// New returns a Store of the table with a name. It sends nothing: see Create and Ping.
func New(client *dynamodb.Client, name string, options ...Option) *Store {
	s := &Store{
		name:     name,
		place:    awsclient.Place(client.Options().Region, client.Options().BaseEndpoint),
		parallel: 8,
		backoff:  jitter,
		poll:     pollInterval,
	}
	s.client = callsOf(dynamodb.New(client.Options(), s.watch))
	s.exact = callsOf(dynamodb.New(client.Options(), s.watch, func(o *dynamodb.Options) { o.Retryer = refusedOnly{o.Retryer} }))
	for _, option := range options {
		option(s)
	}
	return s
}

func jitter(attempt int) time.Duration {
	return backoff.Exponential{First: 25 * time.Millisecond, Most: 2 * time.Second}.Jittered(attempt, rand.Float64())
}

// Get implements table.Store.
func (s *Store) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	if err := in.Validate(); err != nil {
		return table.GetResult{}, err
	}
	var e expr
	out, err := s.client.GetItem(about(ctx, subject{op: table.OpGet, pk: in.Key.PK}), &dynamodb.GetItemInput{
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
	client := s.clientFor(in.If == nil)
	out, err := client.PutItem(aboutWrites(ctx, table.OpPut, table.BatchWrite{Put: &in.Item}), &dynamodb.PutItemInput{
		TableName: &s.name, Item: encodeItem(in.Item),
		ConditionExpression: e.condition(in.If), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		return s.failWrite(client, table.OpPut, table.TransactOp{Put: &in}, err)
	}
	return written(in.Item.Key, out.ConsumedCapacity, out.ResultMetadata), nil
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
	client := s.clientFor(in.If == nil && len(in.Add) == 0)
	out, err := client.UpdateItem(about(ctx, subject{op: table.OpUpdate, pk: in.Key.PK}), req)
	if err != nil {
		return s.failWrite(client, table.OpUpdate, table.TransactOp{Update: &in}, err)
	}
	res := written(in.Key, out.ConsumedCapacity, out.ResultMetadata)
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
	condition := e.condition(in.If)
	client := s.clientFor(in.If == nil)
	out, err := client.DeleteItem(about(ctx, subject{op: table.OpDelete, pk: in.Key.PK}), &dynamodb.DeleteItemInput{
		TableName: &s.name, Key: encodeKey(in.Key),
		ConditionExpression: condition, ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		return s.failWrite(client, table.OpDelete, table.TransactOp{Delete: &in}, err)
	}
	return written(in.Key, out.ConsumedCapacity, out.ResultMetadata), nil
}

// written returns the result of a successful write of one item.
func written(key table.Key, c *types.ConsumedCapacity, answered middleware.Metadata) table.WriteResult {
	return table.WriteResult{Units: writeUnits(c), Refused: slices.Repeat([]string{key.PK}, refusedTries(answered))}
}

// clientFor returns the client for a write. A repeatable write may take effect twice.
func (s *Store) clientFor(repeatable bool) *calls {
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
