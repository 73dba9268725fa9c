package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/awsclient"
	"fanfare/internal/queue"
)

// These are the settings of the queues that Create makes.
const (
	// retention is the maximum time for which SQS keeps messages, for both kinds of queue. An
	// outage of the workers may last that long before messages are lost (I6).
	retention = 14 * 24 * time.Hour
	// maxReceiveCount is the limit of SQS's own redrive policy. It ends the redeliveries of
	// messages whose consumers always die before they answer. A subscription applies the same
	// limit to the receives of a message and its copies together.
	maxReceiveCount = 1000
	// maxBody is the size of the largest message that SQS allows.
	maxBody = 1 << 20
)

// Create sets these attributes of queues, and Examine compares them.
const (
	attrRetention  = "MessageRetentionPeriod"
	attrMaxBody    = "MaximumMessageSize"
	attrVisibility = "VisibilityTimeout"
	attrRedrive    = "RedrivePolicy"
)

type redrivePolicy struct {
	Target string `json:"deadLetterTargetArn"` //nolint:tagliatelle // SQS's names
	// MaxReceives is a number, or a number as text: tools write both.
	MaxReceives json.Number `json:"maxReceiveCount"` //nolint:tagliatelle // SQS's names
}

// Create makes the queues of the topics and their dead-letter queues. Without topics it makes
// the queues of all queue.Topics. If a queue exists, Create corrects its settings.
func (b *Broker) Create(ctx context.Context, topics ...string) error {
	ctx = awsclient.Patient(ctx, requestTimeout)
	if len(topics) == 0 {
		topics = queue.Topics()
	}
	for _, topic := range topics {
		if err := queue.CheckTopic(topic); err != nil {
			return fmt.Errorf("create queues: %w", err)
		}
		dead, err := b.createOne(ctx, b.queueName(topic)+DeadSuffix, deadSettings())
		if err != nil {
			return err
		}
		arn, err := b.arn(ctx, dead)
		if err != nil {
			return err
		}
		settings, err := b.settings(arn)
		if err != nil {
			return err
		}
		if _, err := b.createOne(ctx, b.queueName(topic), settings); err != nil {
			return err
		}
	}
	return nil
}

// deadSettings returns the attributes of a dead-letter queue.
func deadSettings() map[string]string {
	return map[string]string{
		attrRetention: inSeconds(retention),
		attrMaxBody:   strconv.Itoa(maxBody),
	}
}

// settings returns the attributes of a queue whose dead-letter queue has this ARN.
func (b *Broker) settings(deadARN string) (map[string]string, error) {
	policy, err := json.Marshal(redrivePolicy{deadARN, json.Number(strconv.Itoa(maxReceiveCount))})
	if err != nil {
		return nil, fmt.Errorf("create queues: redrive policy: %w", err)
	}
	return map[string]string{
		attrRetention:                   inSeconds(retention),
		attrMaxBody:                     strconv.Itoa(maxBody),
		attrVisibility:                  inSeconds(b.opt.Visibility),
		"ReceiveMessageWaitTimeSeconds": inSeconds(b.opt.PollWait),
		attrRedrive:                     string(policy),
	}, nil
}

// createOne makes a queue with the given attributes. If the queue exists, createOne sets the
// attributes. It returns the URL.
func (b *Broker) createOne(ctx context.Context, name string, attributes map[string]string) (string, error) {
	created, err := b.client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err == nil {
		return aws.ToString(created.QueueUrl), nil
	}
	exists, ok := errors.AsType[*types.QueueNameExists](err)
	if !ok {
		return "", b.classify("create queue "+name, err)
	}
	q, err := b.find(ctx, name)
	if err != nil {
		return "", errors.Join(err, exists)
	}
	if _, err := b.client.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &q.url, Attributes: attributes}); err != nil {
		return "", b.classify("set attributes of queue "+name, err)
	}
	return q.url, nil
}

func inSeconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

func (b *Broker) arn(ctx context.Context, url string) (string, error) {
	attributes, err := b.attributes(ctx, url, types.QueueAttributeNameQueueArn)
	if err != nil {
		return "", err
	}
	return attributes[string(types.QueueAttributeNameQueueArn)], nil
}

func (b *Broker) attributes(ctx context.Context, url string, names ...types.QueueAttributeName) (map[string]string, error) {
	asking, cancel := b.within(ctx, requestTimeout)
	defer cancel()
	out, err := b.client.GetQueueAttributes(asking, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
	if err != nil {
		return nil, b.classify("attributes of "+url, err)
	}
	return out.Attributes, nil
}

// Ping fails if the queue of some topic cannot be reached. It makes the requests for all topics
// at once, so the time of a health check does not grow with the number of topics.
func (b *Broker) Ping(ctx context.Context) error {
	asked, ctx := errgroup.WithContext(ctx)
	for _, topic := range queue.Topics() {
		asked.Go(func() error {
			q, err := b.findTopic(ctx, topic, "")
			if err != nil {
				return err
			}
			_, err = b.arn(ctx, q.url)
			return err
		})
	}
	return asked.Wait()
}

// Description is a queue with its attributes on SQS.
type Description struct {
	Topic string
	// Name and URL are the name and the URL of the queue. The name of its dead-letter queue is Name + "-dlq".
	Name, URL  string
	Depth      queue.Depth
	Attributes map[string]string
}

// Describe returns the queues of all topics.
func (b *Broker) Describe(ctx context.Context) ([]Description, error) {
	var all []Description
	for _, topic := range queue.Topics() {
		q, err := b.findTopic(ctx, topic, "")
		if err != nil {
			return nil, fmt.Errorf("describe: %w", err)
		}
		attributes, err := b.attributes(ctx, q.url, types.QueueAttributeNameAll)
		if err != nil {
			return nil, fmt.Errorf("describe: %w", err)
		}
		depth, err := b.Depth(ctx, topic)
		if err != nil {
			return nil, fmt.Errorf("describe: %w", err)
		}
		all = append(all, Description{topic, b.queueName(topic), q.url, depth, attributes})
	}
	return all, nil
}

// Depth implements queue.Broker. SQS's counts are approximate. InFlight includes messages that
// were nacked with a short delay.
func (b *Broker) Depth(ctx context.Context, topic string) (queue.Depth, error) {
	end, err := b.begin(&b.calls)
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", topic, err)
	}
	defer end()
	main, err := b.counts(ctx, topic, "")
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", topic, err)
	}
	dead, err := b.counts(ctx, topic, DeadSuffix)
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", topic, err)
	}
	main.Dead = dead.Ready + dead.Delayed + dead.InFlight
	return main, nil
}

func (b *Broker) counts(ctx context.Context, topic, suffix string) (queue.Depth, error) {
	q, err := b.findTopic(ctx, topic, suffix)
	if err != nil {
		return queue.Depth{}, err
	}
	attributes, err := b.attributes(ctx, q.url, types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible)
	if err != nil {
		return queue.Depth{}, err
	}
	number := func(name types.QueueAttributeName) int64 {
		n, parseErr := strconv.ParseInt(attributes[string(name)], 10, 64)
		err = errors.Join(err, parseErr)
		return n
	}
	d := queue.Depth{
		Ready:    number(types.QueueAttributeNameApproximateNumberOfMessages),
		Delayed:  number(types.QueueAttributeNameApproximateNumberOfMessagesDelayed),
		InFlight: number(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
	}
	if err != nil {
		return queue.Depth{}, fmt.Errorf("attributes of %s: %w", q.url, err)
	}
	return d, nil
}
