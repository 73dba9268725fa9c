package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fanfare/internal/table"
)

// Scan implements table.Store. The order of the items is the order of their partition keys' hashes.
func (s *Store) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	if err := in.Validate(); err != nil {
		return table.ScanPage{}, err
	}
	req := &dynamodb.ScanInput{TableName: &s.name, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal}
	if in.PageSize > 0 {
		req.Limit = aws.Int32(int32(min(in.PageSize, 1<<20))) // a page of 1 MB has fewer items
	}
	if in.After != (table.Key{}) {
		req.ExclusiveStartKey = encodeKey(in.After)
	}
	out, err := s.client.Scan(about(ctx, subject{op: table.OpScan}), req)
	if err != nil {
		return table.ScanPage{}, s.fail(table.OpScan, err)
	}
	page := table.ScanPage{Units: readUnits(out.ConsumedCapacity)}
	if page.Items, err = decodeItems(out.Items); err != nil {
		return table.ScanPage{}, err
	}
	last, err := decodeOptional(out.LastEvaluatedKey)
	if last != nil {
		page.Next = last.Key
	}
	return page, err
}
