// Program community lets a moderator approve the posts of a community. A community is a user. People submit a post by a
// mention of the community; an approved post is one that the community reposts, so its followers see the post:
//
//	community URL COMMUNITY                      prints the submitted posts that are not approved
//	community URL COMMUNITY approve|remove POST
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
		fmt.Fprintln(os.Stderr, "community:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 && (len(args) != 4 || args[2] != "approve" && args[2] != "remove") {
		return errors.New("usage: community URL COMMUNITY [approve|remove POST]")
	}
	service, err := client.New(args[0], client.WithToken(os.Getenv("SERVICE_TOKEN")))
	if err != nil {
		return err
	}
	as, community := service.ActAs(args[1]), args[1]
	if len(args) == 4 && args[2] == "remove" {
		return as.EndRepost(ctx, args[3])
	} else if len(args) == 4 {
		_, err = as.Repost(ctx, args[3])
		return err
	}
	if _, err := as.PutMe(ctx, client.ProfileInput{Name: community}); err != nil {
		return err
	}
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := as.NotificationViews(ctx, cursor, 0)
		if err != nil {
			return err
		}
		for _, n := range page.Items {
			if n.Post != nil && !n.Post.Reposted && slices.Contains(n.Post.Post.Mentions, community) {
				fmt.Printf("%s %s: %s\n", n.Target, n.Post.Author.ID, n.Post.Post.Text)
			}
		}
		cursor = page.NextCursor
	}
	return nil
}
