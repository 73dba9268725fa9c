package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
)

// copier makes empty backups. It fails for the directory /full.
type copier struct{}

func (copier) Backup(_ context.Context, dir string) (admin.Backup, error) {
	if dir == "/full" {
		return admin.Backup{}, errors.New("no space left")
	}
	return admin.Backup{Dir: dir, Files: 3}, nil
}

func TestABackupIsMadeForTheClientAndForNoWebPage(t *testing.T) {
	server := httptest.NewServer(admin.NewHandler(admin.Config{Metrics: prometheus.NewRegistry(), Health: admin.NewHealth(), Domain: admin.Domain{Backups: copier{}}}))
	defer server.Close()
	c := admin.NewClient(strings.TrimPrefix(server.URL, "http://"), server.Client())
	made, err := admin.MakeBackup().Do(t.Context(), c, admin.BackingUp{Dir: "/var/backup/../one"})
	require.NoError(t, err)
	assert.Equal(t, admin.Backup{Dir: "/var/one", Files: 3}, made)
	_, err = admin.MakeBackup().Do(t.Context(), c, admin.BackingUp{Dir: "/full"})
	require.EqualError(t, err, "no space left")
	for body, want := range map[string]int{`{"dir":"here"}`: http.StatusUnprocessableEntity, `{}`: http.StatusUnprocessableEntity, `{"to":"/x"}`: http.StatusBadRequest, ``: http.StatusBadRequest} {
		assert.Equal(t, want, post(t, server.URL, body, "same-origin"), body)
	}
	assert.Equal(t, http.StatusForbidden, post(t, server.URL, `{"dir":"/x"}`, "cross-site"))
}

// On AWS the process has no data to copy.
func TestAProcessWithoutDataHasNoBackup(t *testing.T) {
	server := httptest.NewServer(admin.NewHandler(admin.Config{Metrics: prometheus.NewRegistry(), Health: admin.NewHealth()}))
	defer server.Close()
	assert.Equal(t, http.StatusNotFound, post(t, server.URL, `{"dir":"/x"}`, "same-origin"))
}

func post(t *testing.T, url, body, site string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/admin/backup", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Sec-Fetch-Site", site)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}
