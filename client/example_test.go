package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"fanfare/client"
	"fanfare/client/clienttest"
)

// start starts the contract in memory. It replaces a running service, such as `fanfare up` at
// http://127.0.0.1:8080.
func start() (*client.Client, func()) {
	server := httptest.NewServer(clienttest.New())
	anyone, err := client.New(server.URL)
	if err != nil {
		panic(err)
	}
	return anyone, func() { anyone.CloseIdleConnections(); server.Close() }
}

// as returns a client for a user with a profile. The service must be in development mode.
func as(ctx context.Context, anyone *client.Client, user string) *client.Client {
	token, err := anyone.DevToken(ctx, user, 0)
	if err != nil {
		panic(err)
	}
	c := anyone.AsToken(token.Token)
	if _, err := c.PutMe(ctx, client.ProfileInput{Name: user}); err != nil {
		panic(err)
	}
	return c
}

func Example() {
	ctx := context.Background()
	anyone, stop := start()
	defer stop()
	ann, bob := as(ctx, anyone, "ann"), as(ctx, anyone, "bob")

	if err := bob.Follow(ctx, "ann"); err != nil {
		fmt.Println(err)
		return
	}
	post, err := ann.CreatePost(ctx, client.PostInput{Text: "Hello, Bob."})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := bob.Like(ctx, post.ID); err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range bob.Home(client.Push).All(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s (%d likes)\n", item.Author.Name, item.Post.Text, item.LikeCount)
	}
	// Output: ann: Hello, Bob. (1 likes)
}

func ExampleClient_ActAs() {
	ctx := context.Background()
	anyone, stop := start()
	defer stop()
	token, err := anyone.DevToken(ctx, "backend", 0, "fanfare:act")
	if err != nil {
		fmt.Println(err)
		return
	}

	// A backend keeps one client with its own token, and names the user in each call.
	backend := anyone.AsToken(token.Token)
	ann, err := backend.ActAs("auth0|5f7c").PutMe(ctx, client.ProfileInput{Name: "Ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ann.ID, ann.Name)
	// Output: auth0|5f7c Ann
}

func ExampleProblem() {
	ctx := context.Background()
	anyone, stop := start()
	defer stop()
	ann := as(ctx, anyone, "ann")

	_, err := ann.CreatePost(ctx, client.PostInput{Text: ""})
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		fmt.Println(problem.Status, problem.Errors[0].Field)
	}
	_, err = ann.Post(ctx, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// 422 text
	// true
}

func ExampleClient_CreatePost_idempotencyKey() {
	ctx := context.Background()
	anyone, stop := start()
	defer stop()
	ann := as(ctx, anyone, "ann")

	// A job that may run twice gives its post a key, so that only one post is created.
	in := client.PostInput{Text: "Week 12 is out.", IdempotencyKey: "newsletter-12"}
	first, err := ann.CreatePost(ctx, in)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := ann.CreatePost(ctx, in)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.ID == again.ID)
	// Output: true
}

func ExampleList_Page() {
	ctx := context.Background()
	anyone, stop := start()
	defer stop()
	ann := as(ctx, anyone, "ann")
	for _, name := range []string{"bob", "cleo", "dan"} {
		if err := as(ctx, anyone, name).Follow(ctx, "ann"); err != nil {
			fmt.Println(err)
			return
		}
	}

	// A user interface keeps the cursor and asks for the next page when the user scrolls.
	page, err := ann.Followers("ann").Page(ctx, "", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	rest, err := ann.Followers("ann").Page(ctx, page.NextCursor, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(page.Items), len(rest.Items), rest.NextCursor == "")
	// Output: 2 1 true
}
