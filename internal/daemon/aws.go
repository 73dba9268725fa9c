package daemon

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"fanfare/internal/awsclient"
	"fanfare/internal/config"
	"fanfare/internal/obs"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/table/dynamo"
)

// How much one process does at once on AWS, where each step waits for the network.
const (
	awsPostWorkers  = 32
	awsChunkWorkers = 16
	awsWriters      = 8
)

// OpenTable returns the DynamoDB table of a configuration. It calls nothing yet.
func OpenTable(ctx context.Context, cfg config.Config) (*dynamo.Store, error) {
	aws, err := awsclient.Load(ctx)
	if err != nil {
		return nil, err
	}
	return dynamo.New(dynamodb.NewFromConfig(aws), cfg.Table), nil
}

// OpenQueues returns the SQS queues of a configuration. It calls nothing yet; the
// caller closes them.
func OpenQueues(ctx context.Context, cfg config.Config) (*sqs.Broker, error) {
	return openQueues(ctx, sqs.Options{Prefix: cfg.QueuePrefix})
}

func openQueues(ctx context.Context, opt sqs.Options) (*sqs.Broker, error) {
	aws, err := awsclient.Load(ctx)
	if err != nil {
		return nil, err
	}
	return sqs.New(awssqs.NewFromConfig(aws), opt), nil
}

func (p *process) openAWS(ctx context.Context) (*engine, error) {
	store, err := OpenTable(ctx, p.cfg)
	if err != nil {
		return nil, err
	}
	broker, err := openQueues(ctx, sqs.Options{
		Prefix: p.cfg.QueuePrefix, MaxInFlight: maxInFlight(awsPostWorkers, awsChunkWorkers), Now: p.opt.Now, Log: p.log.Named("sqs"),
	})
	if err != nil {
		return nil, err
	}
	p.cleanups.addCloser("queue", broker.Close)
	return &engine{
		store: store, broker: broker, checks: []obs.Check{{Name: "table", Ask: store.Ping}, {Name: "queue", Ask: broker.Ping}},
		transient: func(err error) bool { return transient(err) || sqs.Transient(err) },
		writers:   awsWriters, postWorkers: awsPostWorkers, chunkWorkers: awsChunkWorkers,
		devSecret: []byte(p.cfg.DevSecret),
	}, nil
}
