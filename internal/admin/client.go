package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
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

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := body(in)
	if err != nil {
		return err
	}
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	res, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("the admin address does not answer (is fanfare up running there? see --admin): %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return err
	}
	if res.StatusCode == notFound {
		return &NotFoundError{strings.TrimSpace(string(text))}
	}
	if res.StatusCode == noBackup {
		return &BackupError{strings.TrimSpace(string(text))}
	}
	if res.StatusCode == refusedByPair {
		return &PairError{strings.TrimSpace(string(text))}
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d (is it the admin address of fanfare up? see --admin): %s", c.base, res.StatusCode, text)
	}
	return json.Unmarshal(text, out)
}

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

func body(in any) (io.Reader, error) {
	if in == nil {
		return http.NoBody, nil
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(text), nil
}
