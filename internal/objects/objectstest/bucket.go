package objectstest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Bucket is a bucket of S3 whose objects are written on condition.
type Bucket struct {
	url     string
	mu      sync.Mutex
	away    bool
	objects map[string]object // by their paths
}

type object struct {
	content []byte
	etag    string // empty without an object
}

// NewBucket returns a bucket, which a server of the test serves.
func NewBucket(t *testing.T) *Bucket {
	t.Helper()
	b := &Bucket{objects: map[string]object{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// Env returns the variables of the AWS SDK with which a process finds the bucket.
func (b *Bucket) Env() map[string]string { return Env(b.url) }

// Env returns the variables of the AWS SDK with which a process finds the server of a bucket.
func Env(url string) map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_S3": url, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// SetAway makes the bucket answer nothing, or answer again.
func (b *Bucket) SetAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// Empty takes all objects away.
func (b *Bucket) Empty() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.objects)
}

// ServeHTTP implements http.Handler.
func (b *Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	match, none, o := r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), b.objects[r.URL.Path]
	switch {
	case b.away:
		panic(http.ErrAbortHandler)
	case r.Method == http.MethodGet && o.etag != "":
		w.Header().Set("ETag", o.etag)
		_, _ = w.Write(o.content) // a client that is gone
	case r.Method == http.MethodPut && (match == o.etag && match != "" || none == "*" && o.etag == ""):
		content, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		o = object{content, fmt.Sprintf(`"%x"`, sha256.Sum256(content))}
		b.objects[r.URL.Path] = o
		w.Header().Set("ETag", o.etag)
	case r.Method == http.MethodPut && (match == "" || o.etag != ""):
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `<Error><Code>NoSuchKey</Code></Error>`) // a client that is gone
	}
}
