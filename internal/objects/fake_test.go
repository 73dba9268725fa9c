package objects_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
	"fanfare/internal/objects"
)

// fakeS3 is S3 in memory, as an HTTP client. It has the four calls of a Bucket, and lists two names in a page.
type fakeS3 struct {
	mu      sync.Mutex
	objects map[string][]byte
	calls   []string
	// before and after may answer a request in place of S3, before its effect or after it.
	before, after func(*http.Request) *answer
}

// answer is an answer of S3, or of a proxy before S3. If err is set and status is 0, there is no answer.
type answer struct {
	status int
	body   []byte
	tag    string
	err    error
}

// bucket returns a bucket of the fake, made in the same way as by Open.
func (f *fakeS3) bucket(t *testing.T) *objects.Bucket {
	t.Helper()
	f.objects = map[string][]byte{}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://s3.test", "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_PROFILE": "", "AWS_SESSION_TOKEN": "", "AWS_CA_BUNDLE": "", "AWS_MAX_ATTEMPTS": "", "AWS_RETRY_MODE": "", "AWS_ENDPOINT_URL_S3": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	cfg, err := awsclient.Load(t.Context(), config.WithHTTPClient(f))
	require.NoError(t, err)
	return objects.NewBucket(s3.NewFromConfig(cfg, objects.ForEndpoint), "bucket", "some/prefix")
}

// Do implements aws.HTTPClient.
func (f *fakeS3) Do(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.calls = append(f.calls, req.Method)
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if a := before(req); a != nil {
			return a.response()
		}
	}
	res := f.answer(req, body)
	if after != nil {
		if a := after(req); a != nil {
			return a.response()
		}
	}
	return res.response()
}

func (f *fakeS3) answer(req *http.Request, body []byte) *answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, inBucket := strings.CutPrefix(req.URL.Path, "/bucket/")
	if !inBucket && req.URL.Path != "/bucket" {
		return reply(http.StatusNotFound, "NoSuchBucket")
	}
	content, there := f.objects[key]
	switch {
	case req.Method == http.MethodGet && req.URL.Query().Get("list-type") == "2":
		return f.list(req)
	case req.Method == http.MethodPut && there && req.Header.Get("If-None-Match") == "*":
		return reply(http.StatusPreconditionFailed, "PreconditionFailed")
	case req.Method == http.MethodPut && !there && req.Header.Get("If-Match") != "":
		return reply(http.StatusNotFound, "NoSuchKey")
	case req.Method == http.MethodPut && there && req.Header.Get("If-Match") != "" && req.Header.Get("If-Match") != tag(content):
		return reply(http.StatusPreconditionFailed, "PreconditionFailed")
	case req.Method == http.MethodPut:
		sum := sha256.Sum256(body)
		if req.Header.Get("X-Amz-Checksum-Sha256") != base64.StdEncoding.EncodeToString(sum[:]) {
			return reply(http.StatusBadRequest, "BadDigest")
		}
		f.objects[key] = body
		return &answer{status: http.StatusOK, tag: tag(body)}
	case req.Method == http.MethodDelete:
		delete(f.objects, key)
		return &answer{status: http.StatusNoContent, body: nil}
	case !there:
		return reply(http.StatusNotFound, "NoSuchKey")
	}
	return &answer{status: http.StatusOK, body: content, tag: tag(content)}
}

// tag returns the ETag of a content.
func tag(content []byte) string { return fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(content))) }

func (f *fakeS3) list(req *http.Request) *answer {
	type contents struct {
		Key          string
		Size         int
		LastModified time.Time
	}
	var page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []contents
	}
	query := req.URL.Query()
	after := max(query.Get("start-after"), query.Get("continuation-token"))
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if key <= after || !strings.HasPrefix(key, query.Get("prefix")) {
			continue
		}
		if len(page.Contents) == 2 {
			page.IsTruncated, page.NextContinuationToken = true, page.Contents[1].Key
			break
		}
		page.Contents = append(page.Contents, contents{key, len(f.objects[key]), time.Now().UTC()})
	}
	text, err := xml.Marshal(page)
	if err != nil {
		return reply(http.StatusInternalServerError, err.Error())
	}
	return &answer{status: http.StatusOK, body: text}
}

// reply returns an error of S3.
func reply(status int, code string) *answer {
	return &answer{status: status, body: fmt.Appendf(nil, "<Error><Code>%s</Code><Message>m</Message></Error>", code)}
}

func (a *answer) response() (*http.Response, error) {
	if a.err != nil && a.status == 0 {
		return nil, a.err
	}
	res := &http.Response{StatusCode: a.status, Body: io.NopCloser(bytes.NewReader(a.body)), Header: http.Header{"Content-Type": {"application/xml"}}}
	if a.tag != "" {
		res.Header.Set("ETag", a.tag)
	}
	if a.err != nil { // the body is cut in the middle
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(a.body), iotest.ErrReader(a.err)))
	}
	return res, nil
}
