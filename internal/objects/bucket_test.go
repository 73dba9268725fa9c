package objects_test

import (
	"errors"
	"io"
	"net/http"
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
	objectstest.Run(t, func(t *testing.T) objects.Store {
		t.Helper()
		return (&fakeS3{}).bucket(t)
	})
}

func TestABucketKeepsTheContractOfConditions(t *testing.T) {
	objectstest.RunConditional(t, func(t *testing.T) objects.Conditional {
		t.Helper()
		return (&fakeS3{}).bucket(t)
	})
	_, err := objects.Location{Dir: t.TempDir()}.OpenConditional(t.Context())
	require.ErrorContains(t, err, "s3://bucket/prefix")
}

// The SDK repeats a request whose answer was lost. The repeated request finds another version, so the caller
// has to read which content won.
func TestASwapWhoseAnswerIsLost(t *testing.T) {
	f := &fakeS3{after: only(http.MethodPut, &answer{err: syscall.ECONNRESET})}
	b := f.bucket(t)
	_, err := b.Swap(t.Context(), "a", "", x())
	require.ErrorIs(t, err, objects.ErrChanged)
	content, version, err := b.Fetch(t.Context(), "a", 10)
	require.NoError(t, err)
	assert.Equal(t, "x", string(content))
	f.before = func(*http.Request) *answer { return reply(503, "SlowDown") }
	_, err = b.Swap(t.Context(), "a", version, x())
	require.ErrorIs(t, err, objects.ErrAway)
	_, _, err = b.Fetch(t.Context(), "a", 10)
	require.ErrorIs(t, err, objects.ErrAway)
}

func x() objects.Body { return objects.Bytes([]byte("x")) }

// only returns a fault for the first request with a method.
func only(method string, a *answer) func(*http.Request) *answer {
	hit := false
	return func(req *http.Request) *answer {
		if hit || req.Method != method {
			return nil
		}
		hit = true
		return a
	}
}

// The SDK repeats a request whose answer was lost. If the first request had its effect, the
// repeated request finds the object of the first request.
func TestACreationWhoseAnswerIsLostSucceeds(t *testing.T) {
	for name, lost := range map[string]*answer{
		"cut":           {err: syscall.ECONNRESET},
		"failed server": reply(http.StatusInternalServerError, "InternalError"),
		"half a head":   {err: io.ErrUnexpectedEOF},
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

// If two writers conflict, S3 asks the client to retry.
func TestAConflictOfTwoWritersIsRepeated(t *testing.T) {
	f := &fakeS3{before: only(http.MethodPut, reply(http.StatusConflict, "ConditionalRequestConflict"))}
	require.NoError(t, f.bucket(t).Create(t.Context(), "a", x()))
	assert.Equal(t, []string{"PUT", "PUT"}, f.calls)
}

// If the object with the name is deleted before Create reads it, Create begins again.
func TestACreationAfterADeletion(t *testing.T) {
	f := &fakeS3{}
	b := f.bucket(t)
	require.NoError(t, b.Create(t.Context(), "a", objects.Bytes([]byte("y"))))
	f.before = func(req *http.Request) *answer {
		if req.Method == http.MethodGet {
			f.mu.Lock()
			defer f.mu.Unlock()
			clear(f.objects)
		}
		return nil
	}
	require.NoError(t, b.Create(t.Context(), "a", x()))
	f.before = func(req *http.Request) *answer { // a store whose answers contradict each other
		if req.Method == http.MethodPut {
			return reply(http.StatusPreconditionFailed, "PreconditionFailed")
		}
		return reply(http.StatusNotFound, "NoSuchKey")
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
	for name, c := range map[string]struct {
		kind  error
		fault *answer
	}{
		"busy":               {objects.ErrAway, reply(503, "SlowDown")},
		"failed":             {objects.ErrAway, reply(500, "InternalError")},
		"a proxy's page":     {objects.ErrAway, &answer{status: 502, body: []byte("<html>")}},
		"too slow":           {objects.ErrAway, reply(400, "RequestTimeout")},
		"throttled":          {objects.ErrAway, reply(429, "TooManyRequests")},
		"cut":                {objects.ErrAway, &answer{err: syscall.ECONNRESET}},
		"no host":            {objects.ErrAway, &answer{err: errors.New("no such host")}},
		"no rights":          {objects.ErrRefused, reply(403, "AccessDenied")},
		"no bucket":          {objects.ErrRefused, reply(404, "NoSuchBucket")},
		"wrong key":          {objects.ErrRefused, reply(403, "InvalidAccessKeyId")},
		"old token":          {objects.ErrRefused, reply(400, "ExpiredToken")},
		"another region":     {objects.ErrRefused, reply(301, "PermanentRedirect")},
		"wrong region":       {objects.ErrRefused, reply(400, "AuthorizationHeaderMalformed")},
		"key is disabled":    {objects.ErrRefused, reply(400, "KMS.DisabledException")},
		"wrong clock":        {objects.ErrRefused, reply(403, "RequestTimeTooSkewed")},
		"something unknown":  {objects.ErrRefused, reply(400, "SomethingOfTomorrow")},
		"no conditions here": {objects.ErrRefused, reply(501, "NotImplemented")},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeS3{}
			b := f.bucket(t)
			synctest.Test(t, func(t *testing.T) {
				f.before = func(*http.Request) *answer { return c.fault }
				errs := every(t, b)
				require.Len(t, errs, 4)
				for i, err := range errs {
					assert.ErrorIsf(t, err, c.kind, "call %d", i)
				}
			})
		})
	}
}

// If a store accepts requests and does not answer, a call makes four attempts of three seconds
// each. A larger body gets more time.
func TestASilentStoreIsAwayInBoundedTime(t *testing.T) {
	f := &fakeS3{}
	b := f.bucket(t)
	synctest.Test(t, func(t *testing.T) {
		f.before = func(req *http.Request) *answer {
			<-req.Context().Done()
			return &answer{err: req.Context().Err()}
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

// A content that was cut must not look like a shorter content.
func TestACutContentIsAway(t *testing.T) {
	f := &fakeS3{}
	b := f.bucket(t)
	f.before = func(*http.Request) *answer {
		return &answer{status: http.StatusOK, body: []byte("half"), err: io.ErrUnexpectedEOF}
	}
	_, err := objects.Read(t.Context(), b, "a", 1000)
	require.ErrorIs(t, err, objects.ErrAway)
}
