package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/ops/audit"
)

// verifier is a function that does a walk with one finding. The test decides when the walk
// ends.
type verifier func(ctx context.Context, w audit.Walk) (audit.Summary, error)

func (v verifier) Run(ctx context.Context, w audit.Walk) (audit.Summary, error) {
	if err := w.Found(audit.Finding{Kind: "like-count", PK: "p", SK: "s"}); err != nil {
		return audit.Summary{}, err
	}
	return v(ctx, w)
}

func TestAVerificationIsStreamedToItsEnd(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	for name, c := range map[string]struct {
		walk verifier
		want audit.Summary
		err  string
	}{
		"done": {func(_ context.Context, w audit.Walk) (audit.Summary, error) {
			assert.True(t, w.Repair)
			return audit.Summary{Items: 3, Left: 1}, nil
		}, audit.Summary{Items: 3, Left: 1}, ""},
		"failed": {func(context.Context, audit.Walk) (audit.Summary, error) {
			return audit.Summary{}, errors.New("the table is gone")
		}, audit.Summary{}, "the table is gone"},
		"busy": {func(context.Context, audit.Walk) (audit.Summary, error) {
			close(entered)
			<-leave
			return audit.Summary{}, nil
		}, audit.Summary{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(admin.NewHandler(admin.Config{Domain: admin.Domain{Audit: c.walk}}))
			defer server.Close()
			client := admin.NewClient(server.Listener.Addr().String(), &http.Client{Timeout: time.Minute})
			var found []audit.Kind
			walk := func() (audit.Summary, error) {
				event := func(e admin.VerifyEvent) error {
					found = append(found, e.Finding.Kind)
					return nil
				}
				return admin.Verify().Do(t.Context(), client, admin.Verification{Repair: true, Rate: 7, Event: event})
			}
			if name == "busy" {
				other := make(chan error)
				go func() { _, err := walk(); other <- err }()
				<-entered
				_, err := admin.Verify().Do(t.Context(), client, admin.Verification{Rate: 1})
				assert.ErrorContains(t, err, "another verification is at work here")
				close(leave)
				require.NoError(t, <-other)
				return
			}
			got, err := walk()
			assert.Equal(t, []audit.Kind{"like-count"}, found)
			assert.Equal(t, c.want, got)
			if c.err == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, c.err)
			}
		})
	}
	assert.Equal(t, http.StatusUnprocessableEntity, call(t, admin.Config{Domain: admin.Domain{Audit: verifier(nil)}}, http.MethodPost, "/admin/verify", nil, `{"rate":0.5}`))
	assert.Equal(t, http.StatusForbidden, call(t, admin.Config{Domain: admin.Domain{Audit: verifier(nil)}}, http.MethodPost, "/admin/verify", http.Header{"Sec-Fetch-Site": {"cross-site"}}, `{"rate":1}`))
}

// unreachable fails every request, and fails the test if a request has a time limit.
type unreachable struct{ t *testing.T }

func (u unreachable) RoundTrip(r *http.Request) (*http.Response, error) {
	_, limited := r.Context().Deadline()
	assert.False(u.t, limited, "a request for a walk has a time limit")
	return nil, errors.New("away")
}

func TestAVerificationMayTakeLongerThanOtherCalls(t *testing.T) {
	client := admin.NewClient("127.0.0.1:1", &http.Client{Timeout: time.Minute, Transport: unreachable{t}})
	_, err := admin.Verify().Do(t.Context(), client, admin.Verification{Rate: 1})
	require.ErrorContains(t, err, "the admin address does not answer")
}
