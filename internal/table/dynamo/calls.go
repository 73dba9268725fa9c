package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// calls has the calls of a client that a Store makes. A field of the client's type would keep all calls of
// DynamoDB in the program, because a Store is the value of an interface, and the linker takes each
// method of such a value's fields for needed.
type calls struct {
	BatchGetItem              call[dynamodb.BatchGetItemInput, dynamodb.BatchGetItemOutput]
	BatchWriteItem            call[dynamodb.BatchWriteItemInput, dynamodb.BatchWriteItemOutput]
	CreateTable               call[dynamodb.CreateTableInput, dynamodb.CreateTableOutput]
	DeleteItem                call[dynamodb.DeleteItemInput, dynamodb.DeleteItemOutput]
	DescribeContinuousBackups call[dynamodb.DescribeContinuousBackupsInput, dynamodb.DescribeContinuousBackupsOutput]
	DescribeTable             call[dynamodb.DescribeTableInput, dynamodb.DescribeTableOutput]
	DescribeTimeToLive        call[dynamodb.DescribeTimeToLiveInput, dynamodb.DescribeTimeToLiveOutput]
	GetItem                   call[dynamodb.GetItemInput, dynamodb.GetItemOutput]
	PutItem                   call[dynamodb.PutItemInput, dynamodb.PutItemOutput]
	Query                     call[dynamodb.QueryInput, dynamodb.QueryOutput]
	Scan                      call[dynamodb.ScanInput, dynamodb.ScanOutput]
	TransactWriteItems        call[dynamodb.TransactWriteItemsInput, dynamodb.TransactWriteItemsOutput]
	UpdateItem                call[dynamodb.UpdateItemInput, dynamodb.UpdateItemOutput]
	UpdateTimeToLive          call[dynamodb.UpdateTimeToLiveInput, dynamodb.UpdateTimeToLiveOutput]
}

type call[In, Out any] = func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error)

func callsOf(c *dynamodb.Client) *calls {
	return &calls{
		BatchGetItem:              c.BatchGetItem,
		BatchWriteItem:            c.BatchWriteItem,
		CreateTable:               c.CreateTable,
		DeleteItem:                c.DeleteItem,
		DescribeContinuousBackups: c.DescribeContinuousBackups,
		DescribeTable:             c.DescribeTable,
		DescribeTimeToLive:        c.DescribeTimeToLive,
		GetItem:                   c.GetItem,
		PutItem:                   c.PutItem,
		Query:                     c.Query,
		Scan:                      c.Scan,
		TransactWriteItems:        c.TransactWriteItems,
		UpdateItem:                c.UpdateItem,
		UpdateTimeToLive:          c.UpdateTimeToLive,
	}
}
