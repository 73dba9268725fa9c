package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Client calls the admin address of a running process.
type Client struct {
	base   string
	client *http.Client
}

// NewClient returns a client of the admin address addr (HOST:PORT).
func NewClient(addr string, client *http.Client) *Client {
	return &Client{BaseURL(addr), client}
}

// BaseURL returns the URL of an admin address (HOST:PORT) on this machine. An address without
// a host stands for all addresses of the machine.
func BaseURL(addr string) string {
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	return "http://" + addr
}

// refusal returns the error of an answer without an own meaning.
func (c *Client) refusal(status int, text string) error {
	if status == http.StatusServiceUnavailable {
		return fmt.Errorf("%s answered 503: it does not serve yet, or is a standby: ask again, or ask the primary: %s", c.base, text)
	}
	return fmt.Errorf("%s answered %d (is it the admin address of fanfare up? see --admin): %s", c.base, status, text)
}

// AwaitReady waits until the process serves, or until ctx ends.
func (c *Client) AwaitReady(ctx context.Context) error {
	for {
		req, err := c.request(ctx, http.MethodGet, "/readyz", http.NoBody)
		if err != nil {
			return err
		}
		res, why := c.client.Do(req)
		if why == nil {
			text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the status is enough
			_ = res.Body.Close()                                   // the status is enough
			if res.StatusCode == http.StatusOK {
				return nil
			}
			why = errors.New(strings.TrimSpace(string(text)))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve yet: %w", c.base, why)
		case <-time.After(readyPoll):
		}
	}
}

// readyPoll is the time between two questions of AwaitReady.
const readyPoll = 50 * time.Millisecond

// request returns a request with the name of the actor in ctx.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if name := actorOf(ctx).Name; name != "" {
		req.Header.Set(operatorHeader, name)
	}
	return req, nil
}
