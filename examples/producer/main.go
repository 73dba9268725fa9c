// Producer makes a post in Fanfare and likes the post, with the stock SQS publisher of Watermill:
//
//	go run . -author ann -fan bob -text "Hello from a producer"
//
// The program prints the id of the post. The usual environment variables of the AWS SDK configure SQS.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/ThreeDotsLabs/watermill"
	wsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"fanfare/messages"
	"fanfare/producer"
)

func main() {
	prefix := flag.String("prefix", "fanfare", "FANFARE_QUEUE_PREFIX of the daemons")
	author := flag.String("author", "ann", "author of the post")
	fan := flag.String("fan", "bob", "user who likes the post")
	text := flag.String("text", "Hello from a producer", "text of the post")
	flag.Parse()
	if err := run(context.Background(), *prefix, *author, *fan, *text); err != nil {
		fmt.Fprintln(os.Stderr, "producer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, prefix, author, fan, text string) error {
	publisher, err := newPublisher(ctx)
	if err != nil {
		return err
	}
	defer publisher.Close() //nolint:errcheck // the publisher holds no unsent messages
	p := producer.New()     // one for the process, because its ids only grow
	post, err := p.Post(author, text)
	if err != nil {
		return err
	}
	if err := publish(publisher, prefix, post); err != nil {
		return err
	}
	like, err := p.Like(fan, post.PostID)
	if err != nil {
		return err
	}
	if err := publish(publisher, prefix, like); err != nil {
		return err
	}
	fmt.Println(post.PostID)
	return nil
}

func newPublisher(ctx context.Context) (message.Publisher, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	return wsqs.NewPublisher(wsqs.PublisherConfig{
		AWSConfig: cfg,
		// The queues exist: fanfare queues create has made the queues and their dead-letter queues.
		DoNotCreateQueueIfNotExists: true,
		GenerateSendMessageInput:    fairly,
	}, watermill.NopLogger{})
}

// fairly adds the group of a message to the request, so that the message waits only for messages of the
// same group.
func fairly(ctx context.Context, queue wsqs.QueueURL, msg *types.Message) (*sqs.SendMessageInput, error) {
	in, err := wsqs.GenerateSendMessageInputDefault(ctx, queue, msg)
	if group, ok := msg.MessageAttributes[producer.AttributeGroup]; ok && err == nil {
		in.MessageGroupId = aws.String(*group.StringValue)
	}
	return in, err
}

// publish publishes an event. After an error the caller may publish the same event again: Fanfare applies
// the event once.
func publish(publisher message.Publisher, prefix string, event messages.Event) error {
	encoded, err := producer.Encode(event)
	if err != nil {
		return err
	}
	msg := message.NewMessage(encoded.ID, encoded.Payload)
	msg.Metadata.Set(producer.AttributeGroup, encoded.Group)
	return publisher.Publish(encoded.Queue(prefix), msg)
}
