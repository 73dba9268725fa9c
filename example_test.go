package fanfare_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"fanfare"
	"fanfare/client"
)

// A test or a small program starts a Fanfare in its own process, and serves it by its own server.
func ExampleStart() {
	ctx := context.Background()
	feed, err := fanfare.Start(ctx, fanfare.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer feed.Close()
	server := httptest.NewServer(feed)
	defer server.Close()

	if err := greet(ctx, server.URL); err != nil {
		fmt.Println(err)
	}
	// Output: Ann: Hello.
}

// greet posts as the user ann, and prints the posts of her home.
func greet(ctx context.Context, url string) error {
	api, err := client.New(url)
	if err != nil {
		return err
	}
	defer api.CloseIdleConnections()
	token, err := api.DevToken(ctx, "ann", 0)
	if err != nil {
		return err
	}
	ann := api.AsToken(token.Token)
	if _, err := ann.PutMe(ctx, client.ProfileInput{Name: "Ann"}); err != nil {
		return err
	}
	if _, err := ann.CreatePost(ctx, client.PostInput{Text: "Hello."}); err != nil {
		return err
	}
	for item, err := range ann.Home(client.Push).All(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", item.Author.Name, item.Post.Text)
	}
	return nil
}
