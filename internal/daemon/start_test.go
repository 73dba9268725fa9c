package daemon_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/queue/sqstest"
)

// markOf returns DynamoDB's answer with the item that holds a table's format.
func markOf(format int) string {
	return fmt.Sprintf(`{"Item":{"PK":{"S":"format"},"SK":{"S":"format"},"format":{"N":"%d"}}}`, format)
}

// found returns DynamoDB's answer to a GetItem of a start: the table's format, or the TTL of homes.
func found(request []byte) string {
	if bytes.Contains(request, []byte("lifetimes")) {
		return `{"Item":{"PK":{"S":"lifetimes"},"SK":{"S":"info"},"ttls":{"S":"0:2592000000"}}}`
	}
	return markOf(1)
}

// startOnAWS starts a worker, and returns the error of the start.
func startOnAWS(ctx context.Context, t *testing.T) error {
	t.Helper()
	cfg, err := config.Load([]string{"FANFARE_ENGINE=aws", "FANFARE_TABLE=mine", "FANFARE_ADMIN_ADDR=127.0.0.1:0"}, config.Worker)
	require.NoError(t, err)
	return daemon.Run(ctx, daemon.Options{Config: cfg, Roles: daemon.Roles{Likes: true}, Log: zap.NewNop()})
}

// Waiting repairs neither a missing table, a table with other keys, nor refused credentials. So the start
// fails at the first answer, and the error names the remedy.
func TestAFaultThatNeedsAnOperatorFailsTheStartAtOnce(t *testing.T) {
	t.Parallel()
	fail := func(code string) string {
		return fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"m"}`, code)
	}
	for name, row := range map[string]struct {
		answer string
		want   []string
	}{
		"no table":            {fail("ResourceNotFoundException"), []string{`no table "mine" in us-east-1 at http://aws.test`, "fanfare table create", "AWS_REGION"}},
		"a table of others":   {fail("ValidationException"), []string{`"mine" exists with another schema`, "the key of the table is id (S)"}},
		"another format":      {markOf(2), []string{`"mine" has format 2`, "use a newer fanfare"}},
		"refused credentials": {fail("UnrecognizedClientException"), []string{"AWS refuses these credentials", `"mine" in us-east-1`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queues := sqstest.New(0)
			var asked atomic.Int32
			aws := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
				reply := "{}"
				switch op {
				case "GetItem":
					asked.Add(1)
					if reply = row.answer; strings.Contains(reply, "__type") {
						w.WriteHeader(http.StatusBadRequest)
					}
				case "DescribeTable":
					reply = `{"Table":{"TableName":"mine","TableStatus":"ACTIVE","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],` +
						`"AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}]}}`
				case "DescribeTimeToLive":
				default:
					queues.ServeHTTP(w, r)
					return
				}
				_, _ = w.Write([]byte(reply)) // a recorder takes it
			})
			err := startOnAWS(withAWS(t.Context(), aws), t)
			for _, want := range row.want {
				assert.ErrorContains(t, err, want)
			}
			assert.EqualValues(t, 1, asked.Load(), "the table was asked")
		})
	}
}

// A start on AWS stores the settings that all daemons must share, for fanfare doctor.
func TestAStartOnAWSNotesItsSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		queues := sqstest.New(0)
		var noted atomic.Value
		ctx = withAWS(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			service, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			if service == "AmazonSQS" {
				queues.ServeHTTP(w, r)
				return
			}
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			reply := "{}"
			switch op {
			case "GetItem":
				reply = found(body)
			case "PutItem":
				if bytes.Contains(body, []byte("settings")) {
					noted.Store(string(body))
					stop()
				}
			}
			_, _ = w.Write([]byte(reply)) // a recorder takes it
		}))
		cfg, err := config.Load([]string{"FANFARE_ENGINE=aws", "FANFARE_TABLE=mine", "FANFARE_ADMIN_ADDR=127.0.0.1:0", "FANFARE_REACTIONS=love,wow"}, config.Worker)
		require.NoError(t, err)
		cfg.AdminAddr = "" // virtual time does not pass while a listener waits
		broker, err := daemon.OpenQueues(ctx, cfg)
		require.NoError(t, err)
		require.NoError(t, broker.Create(ctx))
		require.NoError(t, broker.Close())
		require.NoError(t, daemon.Run(ctx, daemon.Options{Config: cfg, Roles: daemon.Roles{Likes: true}, Log: zap.NewNop()}))
		for _, want := range []string{`"SK":{"S":"likeagg"}`, `"FANFARE_REACTIONS":{"S":"love,wow"}`, `"FANFARE_NOTIFICATIONS":{"S":"off"}`, `"FANFARE_LIKE_WINDOW":{"S":"1s"}`} {
			assert.Contains(t, noted.Load(), want)
		}
	})
}

// The environment of the process names AWS for all tests, so the rows run one after another.
func TestSettingsOfAWSThatNoCallCanUseFailTheStart(t *testing.T) {
	for name, row := range map[string]struct{ variable, value, want string }{
		"no URL":         {"AWS_ENDPOINT_URL", "127.0.0.1:4566", `"127.0.0.1:4566" is not a URL`},
		"no credentials": {"AWS_ACCESS_KEY_ID", "", "set AWS_PROFILE, or AWS_ACCESS_KEY_ID"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range map[string]string{
				"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
				"AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
			} {
				t.Setenv(name, value)
			}
			t.Setenv(row.variable, row.value)
			assert.ErrorContains(t, startOnAWS(t.Context(), t), row.want)
		})
	}
}
