package awsclient_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"

	"fanfare/internal/awsclient"
)

// direct is the direct client of the configuration.
func direct(tb testing.TB, options ...func(*config.LoadOptions) error) aws.HTTPClient {
	tb.Helper()
	cfg, err := awsclient.Load(tb.Context(), options...)
	if err != nil {
		tb.Fatal(err)
	}
	return cfg.HTTPClient.(interface{ Direct() aws.HTTPClient }).Direct()
}

// over is a direct client whose connections dial makes.
func over(tb testing.TB, dial func(context.Context, string, string) (net.Conn, error)) aws.HTTPClient {
	tb.Helper()
	isolate(tb, "http://127.0.0.1:1")
	return direct(tb, config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
		tr.DialContext = dial
	})))
}

// seen is what a caller sees of a reply.
type seen struct {
	status int
	header http.Header
	length int64
	last   bool
	body   string
}

func see(res *http.Response) (seen, error) {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return seen{res.StatusCode, res.Header.Clone(), res.ContentLength, res.Close, string(body)}, err
}

// send sends body and returns the reply, which has to be closed.
func send(ctx context.Context, client aws.HTTPClient, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Amz-Target", "Test")
	return client.Do(req)
}

// post sends body and reads the reply.
func post(ctx context.Context, client aws.HTTPClient, url, body string) (seen, error) {
	res, err := send(ctx, client, url, body)
	if err != nil {
		return seen{}, err
	}
	return see(res)
}

// echo answers with what the request was.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	text := fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL, r.Host, r.Header.Get("X-Amz-Target"), body)
	w.Header().Set("Content-Length", strconv.Itoa(len(text))) // not in chunks
	answer(w, text)
}

func TestDirectCallsShareOneConnection(t *testing.T) {
	e := newEndpoint(t, echo)
	e.Start()
	isolate(t, e.URL)
	client := direct(t)
	for i := range 1000 {
		body := strings.Repeat("x", i*i%70_000)
		got, err := post(t.Context(), client, e.URL+"/a?b=c", body)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("POST /a?b=c %s Test %s", strings.TrimPrefix(e.URL, "http://"), body)
		if got.status != http.StatusOK || got.body != want || got.header.Get("X-Amz-Crc32") == "" {
			t.Fatalf("call %d: status %d, body of %d bytes, want %d", i, got.status, len(got.body), len(want))
		}
	}
	if n := e.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestDirectCallsOverTLSHonourTheCABundle(t *testing.T) {
	e := newEndpoint(t, quick)
	e.StartTLS()
	isolate(t, e.URL)
	if _, err := post(t.Context(), direct(t), e.URL, "x"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v, want one of an unknown certificate", err)
	}
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
	if err := os.WriteFile(bundle, block, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", bundle)
	client := direct(t)
	before := e.conns.Load()
	for range 100 {
		if got, err := post(t.Context(), client, e.URL, "x"); err != nil || got.body != "{}" {
			t.Fatalf("reply %q, error %v", got.body, err)
		}
	}
	if n := e.conns.Load() - before; n != 1 {
		t.Errorf("%d connections over TLS, want 1", n)
	}
}

// raw serves each connection by script and counts them.
func raw(t *testing.T, script func(c net.Conn, r *bufio.Reader)) (url string, conns func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			serving.Go(func() {
				defer func() { _ = c.Close() }() // it may be closed already
				script(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close() // most have ended
		}
		mu.Unlock()
		serving.Wait()
	})
	return "http://" + l.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
}

// always answers every request with the same bytes, and ends if they are cut.
func always(reply string, cut bool) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if _, err := io.WriteString(c, reply); err != nil || cut {
				return
			}
		}
	}
}

func TestWhatIsNotUnderstoodIsAnErrorAndThenUsual(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		cut   bool
		// usual tells that net/http can read it, later calls should.
		usual bool
	}{
		"an error, no length": {"HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n{}", true, false},
		"in chunks":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", false, true},
		"without a length":    {"HTTP/1.1 200 OK\r\n\r\n{}", true, true},
		"an interim reply":    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", false, true},
		"an old version":      {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", true, true},
		"a continued line":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n c\r\n\r\n{}", false, true},
		"two lengths":         {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", true, false},
		"a bad length":        {"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}", true, false},
		"a giant length":      {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}", true, false},
		"no HTTP":             {"SSH-2.0-OpenSSH\r\n\r\n", true, false},
		"a head cut":          {"HTTP/1.1 200 OK\r\nContent-Le", true, false},
		"a body cut":          {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", true, false},
		"nothing":             {"", true, false},
		"a head of 100 KB":    {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 100_000) + "\r\nContent-Length: 2\r\n\r\n{}", true, true},
		"a header unnamed":    {"HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 2\r\n\r\n{}", true, false},
		"a status of words":   {"HTTP/1.1 OKAY\r\nContent-Length: 2\r\n\r\n{}", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			at, _ := raw(t, always(c.reply, c.cut))
			isolate(t, at)
			client := direct(t)
			if got, err := post(t.Context(), client, at, "x"); err == nil {
				t.Errorf("reply %q, want an error", got.body)
			}
			got, err := post(t.Context(), client, at, "x")
			if c.usual && (err != nil || got.body != "{}") {
				t.Errorf("then reply %q, error %v; want net/http to have read it", got.body, err)
			}
			if !c.usual && err == nil {
				t.Errorf("then reply %q, want an error again", got.body)
			}
		})
	}
}

func TestAConnectionThatCannotBeUsedAgainIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		again bool
	}{
		"usual":                     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true},
		"kept by its word":          {"HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\n{}", true},
		"an error of AWS":           {"HTTP/1.1 400 \r\nx-amzn-RequestId: A\r\nContent-Length: 2\r\n\r\n{}", true},
		"an error of another":       {"HTTP/1.1 408 \r\nContent-Length: 2\r\n\r\n{}", false},
		"closed by its word":        {"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}", false},
		"more than was asked for":   {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n", false},
		"an empty body, as refused": {"HTTP/1.1 503 Slow Down\r\nx-amzn-RequestId: A\r\nContent-Length: 0\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			at, conns := raw(t, always(c.reply, false))
			isolate(t, at)
			client := direct(t)
			for range 2 {
				if _, err := post(t.Context(), client, at, "x"); err != nil {
					t.Fatal(err)
				}
			}
			if n := conns(); (n == 1) != c.again {
				t.Errorf("%d connections for two calls", n)
			}
		})
	}
	t.Run("a body left unread", func(t *testing.T) {
		at, conns := raw(t, always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", false))
		isolate(t, at)
		client := direct(t)
		for range 2 {
			res, err := send(t.Context(), client, at, "x")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(res.Body.Close(), res.Body.Close()); err != nil {
				t.Error(err)
			}
			if _, err := res.Body.Read(make([]byte, 1)); err == nil {
				t.Error("a closed body was read")
			}
		}
		if n := conns(); n != 2 {
			t.Errorf("%d connections for two calls, want 2", n)
		}
	})
}

func TestAConnectionClosedMeanwhileIsNotUsed(t *testing.T) {
	e := newEndpoint(t, quick)
	e.Start()
	isolate(t, e.URL)
	client := direct(t)
	if _, err := post(t.Context(), client, e.URL, "x"); err != nil {
		t.Fatal(err)
	}
	e.CloseClientConnections()
	if got, err := post(t.Context(), client, e.URL, "x"); err != nil || got.body != "{}" {
		t.Errorf("then reply %q, error %v", got.body, err)
	}
}

// A reply that nobody asked for, such as a balancer's 408 on an idle connection, is
// not taken for another's.
func TestAStrayReplyIsNobodys(t *testing.T) {
	strayed := make(chan struct{})
	at, conns := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				return
			}
			if string(body) == "first" {
				select {
				case <-strayed: // the client has read the answer
				case <-t.Context().Done():
					return
				}
				// Not checked: a client that has closed its end has not taken it, as it should.
				_, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\n\r\n{}")
				strayed <- struct{}{}
			}
		}
	})
	isolate(t, at)
	client := direct(t)
	for _, body := range []string{"first", "second", "third"} {
		got, err := post(t.Context(), client, at, body)
		if err != nil || got.status != http.StatusOK || got.body != body {
			t.Fatalf("%s: status %d, %q, %v", body, got.status, got.body, err)
		}
		if body == "first" {
			strayed <- struct{}{}
			<-strayed
		}
	}
	if n := conns(); n != 2 {
		t.Errorf("%d connections, want a second behind the stray reply", n)
	}
}

// Who closes a body twice does not close the next reply's, on the same connection.
func TestABodyClosedTwiceIsTheFirstOnly(t *testing.T) {
	e := newEndpoint(t, quick)
	e.Start()
	isolate(t, e.URL)
	client := direct(t)
	first, err := send(t.Context(), client, e.URL, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, first.Body); err != nil {
		t.Fatal(err)
	}
	if err := first.Body.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := send(t.Context(), client, e.URL, "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Body.Close(); err != nil {
		t.Error(err)
	}
	if got, err := see(second); err != nil || got.body != "{}" {
		t.Errorf("second reply %q, %v", got.body, err)
	}
	if n := e.conns.Load(); n != 1 {
		t.Errorf("%d connections, want that both had the same", n)
	}
}

func TestACallWhoseContextHasEndedIsNotMade(t *testing.T) {
	e := newEndpoint(t, quick)
	e.Start()
	isolate(t, e.URL)
	client := direct(t)
	if _, err := post(t.Context(), client, e.URL, "x"); err != nil { // there is a connection
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		if _, err := post(ctx, client, e.URL, "x"); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want the context's", err)
		}
	}
	if n := e.requests.Load(); n != 1 {
		t.Errorf("%d requests, want the first alone", n)
	}
}

func TestTheContextEndsADirectCall(t *testing.T) {
	inside := make(chan struct{}, 3)
	for name, reply := range map[string]string{
		"before the head": "", "in the head": "HTTP/1.1 200 OK\r\n", "in the body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			at, conns := raw(t, func(c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(c, reply) // the client may have left
				inside <- struct{}{}
				_, _ = r.ReadByte() // until it does
			})
			isolate(t, at)
			client := direct(t)
			for n := range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-inside
					cancel()
				}()
				if _, err := post(ctx, client, at, ""); err == nil {
					t.Error("no error")
				}
				if conns() != n+1 {
					t.Errorf("%d connections after %d calls: one was used again", conns(), n+1)
				}
			}
		})
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	const most, callers = 512, 600
	var mu sync.Mutex
	now, peak := 0, 0
	full, release := make(chan struct{}), make(chan struct{})
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		now++
		if peak = max(peak, now); now == most && peak == most {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-release
		mu.Lock()
		now--
		mu.Unlock()
		answer(w, "{}")
	})
	e.Start()
	isolate(t, e.URL)
	client := direct(t)
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			if _, err := post(t.Context(), client, e.URL, "x"); err != nil {
				t.Error(err)
			}
		})
	}
	<-full
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := post(ctx, client, e.URL, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller without a connection: error %v, want its context's", err)
	}
	close(release)
	calls.Wait()
	if n := e.conns.Load(); peak > most || n > most {
		t.Errorf("%d calls at once on %d connections, at most %d are to be", peak, n, most)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	var opened, closed atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		client := over(t, func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			opened.Add(1)
			go func() {
				always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", false)(there, bufio.NewReader(there))
				closed.Add(1)
			}()
			return here, nil
		})
		for _, pause := range []time.Duration{0, 10 * time.Second, 19 * time.Second, time.Minute} {
			time.Sleep(pause) //nolint:forbidigo // virtual time
			if _, err := post(t.Context(), client, "http://endpoint", "x"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if opened.Load() != 2 || closed.Load() != 1 {
			t.Errorf("%d connections opened, %d closed; want the one that was idle for a minute closed", opened.Load(), closed.Load())
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		synctest.Wait()
		if closed.Load() != 2 {
			t.Errorf("%d of 2 idle connections were closed", closed.Load())
		}
	})
}

func TestASilentServerEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := over(t, func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, there) }() // until the call gives up
			return here, nil
		})
		began := time.Now()
		_, err := post(t.Context(), client, "http://endpoint", "x")
		if waited := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || waited != 30*time.Second {
			t.Errorf("error %v after %v, want a timeout after 30 s", err, waited)
		}
	})
}

func TestAProxyIsUsed(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		answer(w, "{}")
	}))
	defer proxy.Close()
	isolate(t, "http://endpoint.example")
	client := direct(t, config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
		tr.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
	})))
	for range 2 {
		if got, err := post(t.Context(), client, "http://endpoint.example/", "x"); err != nil || got.body != "{}" || asked != "http://endpoint.example/" {
			t.Fatalf("reply %q, error %v, the proxy was asked for %q", got.body, err, asked)
		}
	}
}

func TestAHeaderCannotBringALineOfItsOwn(t *testing.T) {
	e := newEndpoint(t, quick)
	e.Start()
	isolate(t, e.URL)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "a\r\nX-Amz-Target: other")
	if res, err := direct(t).Do(req); err == nil {
		t.Errorf("sent, status %d", res.StatusCode)
		_ = res.Body.Close() // it should not be there
	}
	if n := e.requests.Load(); n != 0 {
		t.Errorf("%d requests came", n)
	}
}

// FuzzDirectReplies holds the reader of replies to net/http's: what it takes, it
// takes for the same.
func FuzzDirectReplies(f *testing.F) {
	for _, reply := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nServer: Server\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\nx-amzn-RequestId: ABC\r\nx-amz-crc32: 2745614147\r\n\r\n{}",
		"HTTP/1.1 400 Bad Request\r\nA: 1\r\na:  2 \t\r\ncontent-length:3\r\nConnection: close\r\n\r\nabc",
		"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}trailing", "HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", "HTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(reply))
	}
	var playing []byte
	client := over(f, func(context.Context, string, string) (net.Conn, error) {
		return &played{Reader: bytes.NewReader(playing)}, nil
	})
	n := 0
	f.Fuzz(func(t *testing.T, reply []byte) {
		playing = reply
		n++ // another endpoint each time: an unknown form of reply is remembered
		got, err := post(t.Context(), client, fmt.Sprintf("http://endpoint%d/", n), "x")
		if err != nil {
			return
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(reply)), nil)
		if err != nil {
			t.Fatalf("read directly, but net/http says %v", err)
		}
		want, err := see(res)
		if err != nil || want.body != got.body || want.status != got.status || want.length != got.length || (want.last && !got.last) {
			t.Errorf("directly %+v, by net/http %+v, %v", got, want, err)
		}
		want.header.Del("Connection") // net/http takes it out
		got.header.Del("Connection")
		want.header.Set("Content-Length", strconv.FormatInt(want.length, 10))
		got.header.Set("Content-Length", strconv.FormatInt(got.length, 10))
		if !reflect.DeepEqual(want.header, got.header) {
			t.Errorf("headers directly %q, by net/http %q", got.header, want.header)
		}
	})
}

// played is a connection on which a reply is there already.
type played struct {
	io.Reader
	net.Conn
}

func (p *played) Read(b []byte) (int, error)  { return p.Reader.Read(b) }
func (p *played) Write(b []byte) (int, error) { return len(b), nil }
func (p *played) SetDeadline(time.Time) error { return nil }
func (p *played) Close() error                { return nil }

// Whoever sets an HTTP client of another kind gets no other in its place.
func TestAClientOfAnotherKindHasNoDirectOne(t *testing.T) {
	isolate(t, "http://127.0.0.1:1")
	if client := direct(t, config.WithHTTPClient(&http.Client{})); client != nil {
		t.Errorf("Direct returns a %T", client)
	}
}
