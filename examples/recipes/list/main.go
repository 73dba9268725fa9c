// Program list keeps a list of users and prints the list's home. A list is a user that follows its members silently: no
// member is notified, no member's count changes, and nobody sees the members:
//
//	list URL LIST                 prints the newest posts of the members
//	list URL LIST members         prints the members
//	list URL LIST add|remove USER
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
		fmt.Fprintln(os.Stderr, "list:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 4 {
		return errors.New("usage: list URL LIST [members | add USER | remove USER]")
	}
	service, err := client.New(args[0], client.WithToken(os.Getenv("SERVICE_TOKEN")))
	if err != nil {
		return err
	}
	as := service.ActAs(args[1])
	if _, err := as.PutMe(ctx, client.ProfileInput{Name: args[1]}); err != nil {
		return err
	}
	switch {
	case len(args) == 4 && args[2] == "add":
		return as.FollowSilently(ctx, args[3])
	case len(args) == 4:
		return as.Unfollow(ctx, args[3])
	case len(args) == 3:
		for member, err := range as.Following(args[1]).All(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(member.UserID)
		}
		return nil
	}
	home, err := as.Home(client.Push).Page(ctx, "", 20)
	for _, item := range home.Items {
		fmt.Printf("%s: %s\n", item.Author.ID, item.Post.Text)
	}
	return err
}
