package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// caller is one connection to an HTTP server, for one goroutine at a time. It writes requests without
// net/http: load and server share the machine, so net/http's client would take CPU time from the server.
type caller struct {
	host string
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	body []byte
	// header is the header of the last answer.
	header http.Header
}

// callTimeout ends a call without an answer.
const callTimeout = 30 * time.Second

func dial(host string) (*caller, error) {
	conn, err := net.DialTimeout("tcp", host, 5*time.Second) //nolint:noctx // loopback, with a timeout
	if err != nil {
		return nil, err
	}
	return &caller{host: host, conn: conn, in: bufio.NewReader(conn)}, nil
}

func (c *caller) close() error { return c.conn.Close() }

// call makes a request and returns the status and the body. The body is valid until the
// next call.
func (c *caller) call(method, path, token string, body []byte) (status int, reply []byte, err error) {
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", method, path, c.host, token)
	if body != nil {
		c.out = fmt.Appendf(c.out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	c.out = append(append(c.out, "\r\n"...), body...)
	if err := c.conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return 0, nil, err
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, nil, err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	c.header = res.Header
	if n := int(res.ContentLength); n >= 0 {
		if cap(c.body) < n {
			c.body = make([]byte, n)
		}
		c.body = c.body[:n]
		_, err = io.ReadFull(res.Body, c.body)
		if n == 0 {
			err = nil
		}
	} else {
		c.body, err = io.ReadAll(res.Body)
	}
	return res.StatusCode, c.body, err
}

// want makes a request and returns an error unless the answer has the given status. It decodes the answer
// into v unless v is nil.
func (c *caller) want(status int, v any, method, path, token string, body []byte) error {
	got, reply, err := c.call(method, path, token, body)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case got != status:
		return fmt.Errorf("%s %s: status %d: %.200s", method, path, got, reply)
	case v == nil:
		return nil
	}
	if err := json.Unmarshal(reply, v); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

type postReply struct {
	ID string `json:"id"`
}

// post creates a post and returns its id.
func (c *caller) post(token, text string) (string, error) {
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return "", err
	}
	var reply postReply
	err = c.want(http.StatusCreated, &reply, http.MethodPost, "/v1/posts", token, body)
	return reply.ID, err
}
