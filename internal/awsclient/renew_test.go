package awsclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
)

// An operator replaces the keys in the file of credentials. The next call that AWS refuses because of the old key takes the new one, in each
// service, and no process is restarted.
func TestReplacedCredentialsOfAFileAreTakenWithoutARestart(t *testing.T) {
	calls := map[string]func(context.Context, aws.Config) error{
		"s3": func(ctx context.Context, cfg aws.Config) error {
			_, err := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true }).DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
			return err
		},
		"sqs": func(ctx context.Context, cfg aws.Config) error {
			_, err := sqs.NewFromConfig(cfg).ListQueues(ctx, &sqs.ListQueuesInput{})
			return err
		},
		"dynamodb": func(ctx context.Context, cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg).ListTables(ctx, &dynamodb.ListTablesInput{})
			return err
		},
	}
	for service, call := range calls {
		for _, code := range []string{"ExpiredToken", "InvalidClientTokenId"} {
			t.Run(service+" "+code, func(t *testing.T) {
				var old atomic.Bool // the old key has ended
				e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body) // the client may leave
					switch {
					case !old.Load() || !strings.Contains(r.Header.Get("Authorization"), "Credential=OLD/"):
						if service == "s3" {
							w.WriteHeader(http.StatusNoContent)
							return
						}
						answer(w, "{}")
					case service == "s3":
						w.WriteHeader(http.StatusForbidden)
						_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code></Error>`, code) // the client may leave
					default:
						w.WriteHeader(http.StatusForbidden)
						answer(w, `{"__type":"com.amazon.coral.service#`+code+`"}`)
					}
				})
				file := filepath.Join(t.TempDir(), "credentials")
				keys := func(id string) {
					text := "[default]\naws_access_key_id = " + id + "\naws_secret_access_key = secret of " + id + "\n"
					require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
				}
				keys("OLD")
				e.Start()
				t.Setenv("AWS_ENDPOINT_URL", e.URL)
				t.Setenv("AWS_ACCESS_KEY_ID", "") // keys of the environment come before the file
				cfg, err := awsclient.Load(t.Context(), config.WithRegion("eu-central-1"), config.WithSharedCredentialsFiles([]string{file}))
				require.NoError(t, err)
				require.NoError(t, call(t.Context(), cfg))
				keys("NEW")
				require.NoError(t, call(t.Context(), cfg), "the old key is still good")
				assert.Equal(t, "OLD", keyOf(t, cfg))
				old.Store(true)
				require.NoError(t, call(t.Context(), cfg))
				assert.Equal(t, "NEW", keyOf(t, cfg))
				require.NoError(t, call(t.Context(), cfg))
			})
		}
	}
}

func keyOf(t *testing.T, cfg aws.Config) string {
	t.Helper()
	keys, err := cfg.Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	return keys.AccessKeyID
}

// Without other keys a refusal stays a refusal, and is not repeated: the file is read once in a while only.
func TestARefusedKeyIsNotRepeated(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, `{"__type":"com.amazon.coral.service#ExpiredTokenException"}`)
	})
	file := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = ID\naws_secret_access_key = secret\n"), 0o600))
	e.Start()
	t.Setenv("AWS_ENDPOINT_URL", e.URL)
	cfg, err := awsclient.Load(t.Context(), config.WithRegion("eu-central-1"), config.WithSharedCredentialsFiles([]string{file}))
	require.NoError(t, err)
	for n := range int64(3) {
		_, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{})
		assert.True(t, awsclient.Refused(err))
		assert.Equal(t, n+1, e.requests.Load())
	}
}
