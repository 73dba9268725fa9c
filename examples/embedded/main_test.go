package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"fanfare"
	"fanfare/client"
)

// A test of your own starts a feed in its process, in a directory of its own.
func TestAPostComesIntoTheHomeOfItsAuthor(t *testing.T) {
	feed, err := fanfare.Start(t.Context(), fanfare.Config{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	server := httptest.NewServer(pages(feed))
	defer server.Close()
	if err := post(t.Context(), server.URL); err != nil {
		t.Error(err)
	}
}

// post posts as ann, and reads her home.
func post(ctx context.Context, url string) error {
	c, err := client.New(url)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	token, err := c.DevToken(ctx, "ann", 0)
	if err != nil {
		return err
	}
	ann := c.AsToken(token.Token)
	if _, err := ann.PutMe(ctx, client.ProfileInput{Name: "Ann"}); err != nil {
		return err
	}
	made, err := ann.CreatePost(ctx, client.PostInput{Text: "Hello"})
	if err != nil {
		return err
	}
	home, err := ann.Home(client.Push).Page(ctx, "", 10)
	if err != nil {
		return err
	}
	if len(home.Items) != 1 || home.Items[0].Post.ID != made.ID {
		return fmt.Errorf("the home is %+v", home.Items)
	}
	return nil
}

func TestTheProgramServesItsPageAndTheFeedAndStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	urls, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", t.TempDir(), func(url string) { urls <- url }) }()
	var url string
	select {
	case url = <-urls:
	case err := <-ended:
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/hello": http.StatusOK, "/readyz": http.StatusOK, "/": http.StatusOK, "/v1/me": http.StatusUnauthorized} {
		if status, err := get(ctx, url+path); err != nil || status != want {
			t.Errorf("GET %s is %d, %v", path, status, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(ctx context.Context, url string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
