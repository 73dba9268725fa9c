// Program crosspost puts one post into several topics or communities. Each of them reposts the same post, so its likes and
// comments are in one place, a reader who follows several sees the post once, and all copies go with the post:
//
//	crosspost URL POST TOPIC [TOPIC ...]
//
// SERVICE_TOKEN is the token of a service (docs/TOKENS.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"fanfare/client"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crosspost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("usage: crosspost URL POST TOPIC [TOPIC ...]")
	}
	service, err := client.New(args[0], client.WithToken(os.Getenv("SERVICE_TOKEN")))
	if err != nil {
		return err
	}
	for _, topic := range args[2:] {
		as := service.ActAs(topic)
		if _, err := as.PutMe(ctx, client.ProfileInput{Name: "#" + topic}); err != nil {
			return err
		}
		if _, err := as.Repost(ctx, args[1]); err != nil { // run the command again: a topic reposts a post once
			return fmt.Errorf("%s: %w", topic, err)
		}
	}
	return nil
}
