// Notifications reads the events that Fanfare sends to FANFARE_EVENTS_QUEUE, and prints a
// notification for each, with the stock SQS subscriber of Watermill:
//
//	go run . -queue fanfare-events
//
// An event may come twice, and in any order. The notifications of a real program would be
// rows of a database, with the key that inbox uses.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ThreeDotsLabs/watermill"
	wsqs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/config"

	"fanfare/messages"
)

func main() {
	queue := flag.String("queue", "fanfare-events", "FANFARE_EVENTS_QUEUE of the daemons")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *queue)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "notifications:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, queue string) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	subscriber, err := wsqs.NewSubscriber(wsqs.SubscriberConfig{AWSConfig: cfg, DoNotCreateQueueIfNotExists: true}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	msgs, err := subscriber.Subscribe(ctx, queue)
	if err != nil {
		return err
	}
	inbox := inbox{}
	for msg := range msgs {
		inbox.take(msg)
	}
	return subscriber.Close()
}

// inbox holds the keys of the notifications that were sent.
type inbox map[string]bool

func (b inbox) take(msg *message.Message) {
	event, err := messages.Decode(msg.Payload)
	if err != nil { // a newer Fanfare may send kinds that this program does not know
		fmt.Fprintln(os.Stderr, "notifications: left out:", err)
		msg.Ack()
		return
	}
	// Kind and id are the same each time that an event is sent.
	key := string(event.Kind()) + " " + event.Head().EventID
	if text := notification(event); text != "" && !b[key] {
		fmt.Println(text)
	}
	b[key] = true
	msg.Ack() // after the notification is durable
}

// notification returns the text of an event, "" for none.
func notification(event messages.Event) string {
	switch e := event.(type) {
	case *messages.Followed:
		return fmt.Sprintf("@%s: %s follows you", e.AuthorID, e.FollowerID)
	case *messages.LikeCounted:
		if e.Liked && e.UserID != e.AuthorID {
			return fmt.Sprintf("@%s: %s likes your post %s", e.AuthorID, e.UserID, e.PostID)
		}
	case *messages.PostDelivered:
		return fmt.Sprintf("@%s: your post %s is in %d homes", e.AuthorID, e.PostID, e.Delivered)
	}
	return ""
}
