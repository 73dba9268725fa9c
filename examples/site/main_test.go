package main

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"fanfare/client"
)

// A user of the site signs in by its form, posts, reacts, and reads the home with the count.
func TestTheUsersOfTheSitePostAndReact(t *testing.T) {
	pages, feed, err := newSite(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	server := httptest.NewServer(pages)
	defer server.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: server.Client().Transport}
	ann, err := client.New(server.URL+"/feed", client.WithHTTPClient(browser))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.Me(t.Context()); err == nil {
		t.Error("a stranger is signed in")
	}
	res, err := browser.PostForm(server.URL+"/sign-in", url.Values{"user": {"ann"}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Request.URL.Path != "/feed/" {
		t.Errorf("signed in: %s at %s", res.Status, res.Request.URL)
	}
	if err := post(t.Context(), ann); err != nil {
		t.Error(err)
	}
}

// post posts, reacts with love, and waits until the home has the count.
func post(ctx context.Context, ann *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := ann.PutMe(ctx, client.ProfileInput{Name: "Ann"}); err != nil {
		return err
	}
	made, err := ann.CreatePost(ctx, client.PostInput{Text: "Hello"})
	if err != nil {
		return err
	}
	if err := ann.React(ctx, made.ID, "love"); err != nil {
		return err
	}
	for {
		home, err := ann.Home(client.Push).Page(ctx, "", 10)
		if err != nil || len(home.Items) == 1 && home.Items[0].Reactions["love"] == 1 {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
