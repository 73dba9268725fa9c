package objects_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/objects"
	"fanfare/internal/objects/objectstest"
)

func TestABucketKeepsTheContract(t *testing.T) {
	objectstest.Run(t, func(t *testing.T) objects.Store { return (&fakeS3{}).bucket(t) })
}

func x() objects.Body { return objects.Bytes([]byte("x")) }

// only returns a fault that hits the first request of a method.
func only(method string, answer func() (*http.Response, error)) func(*http.Request) (*http.Response, error) {
	hit := false
	return func(req *http.Request) (*http.Response, error) {
		if hit || req.Method != method {
			return nil, nil
		}
		hit = true
		return answer()
	}
}

// The SDK repeats a request that may have had its effect, and then meets its own object.
func TestACreationWhoseAnswerIsLostSucceeds(t *testing.T) {
	for name, lost := range map[string]func() (*http.Response, error){
		"cut":           func() (*http.Response, error) { return nil, syscall.ECONNRESET },
		"failed server": func() (*http.Response, error) { return reply(http.StatusInternalServerError, "InternalError"), nil },
		"half a head":   func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeS3{after: only(http.MethodPut, lost)}
			b := f.bucket(t)
			require.NoError(t, b.Create(t.Context(), "a", x()))
			assert.Equal(t, []string{"PUT", "PUT", "GET"}, f.calls)
			err := b.Create(t.Context(), "a", objects.Bytes([]byte("y")))
			_, exists := errors.AsType[*objects.ExistsError](err)
			assert.True(t, exists, "%v", err)
		})
	}
}

// Two writers met. S3 wants the request again.
func TestAConflictOfTwoWritersIsRepeated(t *testing.T) {
	f := &fakeS3{before: only(http.MethodPut, func() (*http.Response, error) {
		return reply(http.StatusConflict, "ConditionalRequestConflict"), nil
	})}
	require.NoError(t, f.bucket(t).Create(t.Context(), "a", x()))
	assert.Equal(t, []string{"PUT", "PUT"}, f.calls)
}

// An object that was in the way is deleted before it is read: the creation begins again.
func TestACreationAfterADeletion(t *testing.T) {
	f := &fakeS3{}
	b := f.bucket(t)
	require.NoError(t, b.Create(t.Context(), "a", objects.Bytes([]byte("y"))))
	f.before = only(http.MethodGet, func() (*http.Response, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(f.objects)
		return nil, nil
	})
	require.NoError(t, b.Create(t.Context(), "a", x()))
	f.before = func(req *http.Request) (*http.Response, error) { // and a store that contradicts itself
		if req.Method == http.MethodPut {
			return reply(http.StatusPreconditionFailed, "PreconditionFailed"), nil
		}
		return reply(http.StatusNotFound, "NoSuchKey"), nil
	}
	require.ErrorIs(t, b.Create(t.Context(), "a", x()), objects.ErrAway)
}

// every performs each call of the port and returns its errors.
func every(t *testing.T, s objects.Store) []error {
	t.Helper()
	_, read := objects.Read(t.Context(), s, "a", 100)
	errs := []error{s.Create(t.Context(), "a", x()), read, s.Delete(t.Context(), "a")}
	for _, err := range s.List(t.Context(), "", "") {
		errs = append(errs, err)
	}
	return errs
}

func TestTheKindsOfAnswers(t *testing.T) {
	status := func(status int, code string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return reply(status, code), nil }
	}
	for name, c := range map[string]struct {
		kind  error
		fault func(*http.Request) (*http.Response, error)
	}{
		"busy":               {objects.ErrAway, status(503, "SlowDown")},
		"failed":             {objects.ErrAway, status(500, "InternalError")},
		"a proxy's page":     {objects.ErrAway, func(*http.Request) (*http.Response, error) { return response(502, []byte("<html>")), nil }},
		"too slow":           {objects.ErrAway, status(400, "RequestTimeout")},
		"throttled":          {objects.ErrAway, status(429, "TooManyRequests")},
		"cut":                {objects.ErrAway, func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET }},
		"no host":            {objects.ErrAway, func(*http.Request) (*http.Response, error) { return nil, errors.New("no such host") }},
		"no rights":          {objects.ErrRefused, status(403, "AccessDenied")},
		"no bucket":          {objects.ErrRefused, status(404, "NoSuchBucket")},
		"wrong key":          {objects.ErrRefused, status(403, "InvalidAccessKeyId")},
		"old token":          {objects.ErrRefused, status(400, "ExpiredToken")},
		"another region":     {objects.ErrRefused, status(301, "PermanentRedirect")},
		"wrong region":       {objects.ErrRefused, status(400, "AuthorizationHeaderMalformed")},
		"key is disabled":    {objects.ErrRefused, status(400, "KMS.DisabledException")},
		"wrong clock":        {objects.ErrRefused, status(403, "RequestTimeTooSkewed")},
		"something unknown":  {objects.ErrRefused, status(400, "SomethingOfTomorrow")},
		"no conditions here": {objects.ErrRefused, status(501, "NotImplemented")},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeS3{}
			b := f.bucket(t)
			synctest.Test(t, func(t *testing.T) {
				f.before = c.fault
				errs := every(t, b)
				require.Len(t, errs, 4)
				for i, err := range errs {
					assert.ErrorIsf(t, err, c.kind, "call %d", i)
				}
			})
		})
	}
}

// A store that accepts requests and does not answer costs a call its four attempts, of three
// seconds each. A larger body has more time.
func TestASilentStoreIsAwayInBoundedTime(t *testing.T) {
	f := &fakeS3{}
	b := f.bucket(t)
	synctest.Test(t, func(t *testing.T) {
		f.before = func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		began := time.Now()
		for i, err := range every(t, b) {
			assert.ErrorIsf(t, err, objects.ErrAway, "call %d", i)
		}
		assert.LessOrEqual(t, time.Since(began), 4*20*time.Second)
		began = time.Now()
		require.ErrorIs(t, b.Create(t.Context(), "large", objects.Bytes(make([]byte, 1<<20))), objects.ErrAway)
		assert.GreaterOrEqual(t, time.Since(began), 4*(3+4)*time.Second)
		assert.LessOrEqual(t, time.Since(began), 4*(3+4)*time.Second+10*time.Second)
	})
}

// A content that is cut is no shorter content.
func TestACutContentIsAway(t *testing.T) {
	f := &fakeS3{}
	b := f.bucket(t)
	f.before = func(*http.Request) (*http.Response, error) {
		res := response(http.StatusOK, nil)
		res.ContentLength = 100
		res.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{}))
		return res, nil
	}
	_, err := objects.Read(t.Context(), b, "a", 1000)
	require.ErrorIs(t, err, objects.ErrAway)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
