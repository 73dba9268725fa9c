// Program topic lets a topic repost each post that mentions the topic. A topic is a user, so people follow a topic, and
// a repost goes with its original. Run the program often, for example each minute:
//
//	topic URL TOPIC
//
// SERVICE_TOKEN is the token of a service (docs/TOKENS.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"fanfare/client"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "topic:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: topic URL TOPIC")
	}
	service, err := client.New(args[0], client.WithToken(os.Getenv("SERVICE_TOKEN")))
	if err != nil {
		return err
	}
	as, topic := service.ActAs(args[1]), args[1]
	if _, err := as.PutMe(ctx, client.ProfileInput{Name: "#" + topic}); err != nil {
		return err
	}
	read, cursor := "", ""
	for unread := true; unread; unread = unread && cursor != "" {
		page, err := as.NotificationViews(ctx, cursor, 0)
		if err != nil {
			return err
		}
		for _, n := range page.Items {
			if unread = n.Unread; !unread {
				break
			}
			if n.Post == nil || !slices.Contains(n.Post.Post.Mentions, topic) {
				continue
			}
			_, err := as.Repost(ctx, n.Target)
			if p, ok := errors.AsType[*client.Problem](err); err != nil && (!ok || p.Status != 403 && p.Status != 404) {
				return err // the next run begins with the same notifications: a topic reposts a post once
			}
		}
		read, cursor = max(read, page.ReadTo), page.NextCursor
	}
	_, err = as.ReadNotifications(ctx, read)
	return err
}
