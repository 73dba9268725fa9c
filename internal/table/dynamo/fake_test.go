package dynamo_test

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
	"fanfare/internal/table/dynamo"
)

// TestMain hides the configuration of the machine's AWS tools from the SDK.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_PROFILE": "", "AWS_CA_BUNDLE": "",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_MAX_ATTEMPTS": "", "AWS_RETRY_MODE": "",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// object is a JSON object.
type object = map[string]any

// fake is a DynamoDB endpoint for the real SDK. Each test sets the answers of its fake.
type fake struct {
	*httptest.Server
	t *testing.T

	mu sync.Mutex
	// calls has the requests so far, by operation.
	calls map[string][]object
}

// reply is an answer of the fake. The zero reply is an empty object.
type reply struct {
	body   object
	status int // 0 stands for 200
	// cut sends half of the body and ends the connection. hang sends nothing until the client has left.
	cut, hang bool
}

// failure returns an error reply in DynamoDB's form.
func failure(status int, code string, extra object) reply {
	body := object{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": "from the test"}
	maps.Copy(body, extra)
	return reply{status: status, body: body}
}

// newFake returns a fake that serves the replies of answer. n is the number of the call of an
// operation, beginning with 1.
func newFake(t *testing.T, answer func(op string, n int, in object) reply) *fake {
	t.Helper()
	f := &fake{t: t, calls: make(map[string][]object)}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		body, err := io.ReadAll(r.Body) // the server has to read the whole body to notice when the client leaves
		if err != nil {
			return // the client left before it had sent the whole body
		}
		var in object
		if err := json.Unmarshal(body, &in); err != nil {
			t.Errorf("%s: body: %v", op, err)
		}
		f.mu.Lock()
		f.calls[op] = append(f.calls[op], in)
		n := len(f.calls[op])
		f.mu.Unlock()
		f.send(w, r, answer(op, n, in))
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) send(w http.ResponseWriter, r *http.Request, rep reply) {
	if rep.hang {
		<-r.Context().Done()
		return
	}
	body, err := json.Marshal(rep.body)
	if rep.body == nil {
		body = []byte("{}")
	}
	assert.NoError(f.t, err)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10))
	if rep.status != 0 {
		w.WriteHeader(rep.status)
	}
	if rep.cut {
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body) // the client may have left; the test knows that
}

// seen returns the requests of an operation.
func (f *fake) seen(op string) []object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]object(nil), f.calls[op]...)
}

// open returns a Store on an endpoint, with the product's own configuration.
func open(t *testing.T, endpoint, name string, options ...dynamo.Option) *dynamo.Store {
	t.Helper()
	return dynamo.New(dynamodb.NewFromConfig(configFor(t, endpoint)), name, options...)
}

// configFor returns the product's own configuration, but its retries do not wait.
func configFor(t *testing.T, endpoint string) aws.Config {
	t.Helper()
	cfg, err := awsclient.Load(t.Context(), config.WithBaseEndpoint(endpoint))
	require.NoError(t, err)
	product := cfg.Retryer
	cfg.Retryer = func() aws.Retryer { return retry.AddWithMaxBackoffDelay(product(), time.Millisecond) }
	return cfg
}

// openFake returns a Store on a fake that does not wait between the tries of a batch and of a creation.
func openFake(t *testing.T, f *fake, options ...dynamo.Option) *dynamo.Store {
	t.Helper()
	return open(t, f.URL, "t", append(options, dynamo.WithBackoff(func(int) time.Duration { return 0 }), dynamo.WithPoll(time.Millisecond))...)
}

// str and num return values of attributes as they are in requests.
func str(s string) object { return object{"S": s} }
func num(n int) object    { return object{"N": strconv.Itoa(n)} }

// keyOf returns the key of an item in a request.
func keyOf(item any) string {
	m, ok := item.(object)
	if !ok {
		return ""
	}
	return fmt.Sprint(m["PK"], m["SK"])
}
