package sqs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// requests has the calls of a client that a Broker makes. A field of the client's type would keep all calls
// of SQS in the program, because a Broker is the value of an interface, and the linker takes each
// method of such a value's fields for needed.
type requests struct {
	ChangeMessageVisibilityBatch request[sqs.ChangeMessageVisibilityBatchInput, sqs.ChangeMessageVisibilityBatchOutput]
	CreateQueue                  request[sqs.CreateQueueInput, sqs.CreateQueueOutput]
	DeleteMessageBatch           request[sqs.DeleteMessageBatchInput, sqs.DeleteMessageBatchOutput]
	GetQueueAttributes           request[sqs.GetQueueAttributesInput, sqs.GetQueueAttributesOutput]
	GetQueueUrl                  request[sqs.GetQueueUrlInput, sqs.GetQueueUrlOutput]
	ReceiveMessage               request[sqs.ReceiveMessageInput, sqs.ReceiveMessageOutput]
	SendMessageBatch             request[sqs.SendMessageBatchInput, sqs.SendMessageBatchOutput]
	SetQueueAttributes           request[sqs.SetQueueAttributesInput, sqs.SetQueueAttributesOutput]
}

type request[In, Out any] = func(context.Context, *In, ...func(*sqs.Options)) (*Out, error)

func requestsOf(c *sqs.Client) requests {
	return requests{
		ChangeMessageVisibilityBatch: c.ChangeMessageVisibilityBatch,
		CreateQueue:                  c.CreateQueue,
		DeleteMessageBatch:           c.DeleteMessageBatch,
		GetQueueAttributes:           c.GetQueueAttributes,
		GetQueueUrl:                  c.GetQueueUrl,
		ReceiveMessage:               c.ReceiveMessage,
		SendMessageBatch:             c.SendMessageBatch,
		SetQueueAttributes:           c.SetQueueAttributes,
	}
}
