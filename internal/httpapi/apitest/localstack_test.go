//go:build e2e

package apitest_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/auth"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/httpapi/apitest"
)

// onLocalStack makes a table and queues for this test and returns their configuration.
func onLocalStack(t *testing.T, likesByUser string) config.Config {
	t.Helper()
	require.NotEmpty(t, os.Getenv("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL is not set: run this by scripts/with-emulators.sh")
	name := "contract-" + strings.ToLower(rand.Text()[:10])
	cfg, err := config.Load([]string{
		"FANFARE_ENGINE=aws", "FANFARE_TABLE=" + name, "FANFARE_QUEUE_PREFIX=" + name,
		"FANFARE_DEV_AUTH_ON_AWS=allow", "FANFARE_DEV_SECRET=" + rand.Text() + rand.Text(), "FANFARE_LIKES_BY_USER=" + likesByUser, "FANFARE_REACTIONS=" + map[string]string{"on": "love,wow"}[likesByUser],
		"FANFARE_HTTP_ADDR=127.0.0.1:0", "FANFARE_ADMIN_ADDR=127.0.0.1:0", "FANFARE_LIKE_WINDOW=100ms",
	}, config.API)
	require.NoError(t, err)
	store, err := daemon.OpenTable(t.Context(), cfg, nil)
	require.NoError(t, err)
	broker, err := daemon.OpenQueues(t.Context(), cfg)
	require.NoError(t, err)
	_, err = store.Create(t.Context())
	require.NoError(t, err)
	require.NoError(t, broker.Create(t.Context()))
	require.NoError(t, broker.Close())
	return cfg
}

// One run has its table on LocalStack, and one on Dynoxide, which needs little CPU time.
func TestContractOnLocalStack(t *testing.T) {
	for index, table := range map[string]string{"on": "AWS_ENDPOINT_URL", "off": "E2E_DYNOXIDE_URL"} {
		t.Run("likes by user "+index, func(t *testing.T) {
			t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", os.Getenv(table))
			cfg := onLocalStack(t, index)
			ctx, stop := context.WithCancel(t.Context())
			ready, ended := make(chan daemon.Addresses, 1), make(chan error, 1)
			go func() {
				ended <- daemon.Run(ctx, daemon.Options{
					Config: cfg, Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Log: zap.NewNop(), KeptNames: 100 * time.Millisecond,
					Ready: func(at daemon.Addresses) { ready <- at },
				})
			}()
			defer func() {
				stop()
				assert.NoError(t, <-ended)
			}()
			var at daemon.Addresses
			select {
			case at = <-ready:
			case err := <-ended:
				ended <- nil
				t.Fatalf("not started: %v", err)
			}
			dev, err := auth.NewDev([]byte(cfg.DevSecret), time.Now)
			require.NoError(t, err)
			apitest.Exercise(t, apitest.Target{
				URL: "http://" + at.HTTP, LikesByUser: index == "on", Reactions: index == "on", DevTokens: true, Late: true,
				Service: func(t *testing.T, subject string, deletes bool) string {
					t.Helper()
					scopes := []string{auth.ActScope}
					if deletes {
						scopes = append(scopes, auth.DeleteScope)
					}
					token, _, err := dev.Issue(subject, time.Hour, scopes...)
					require.NoError(t, err)
					return token
				},
				Token: func(t *testing.T, user string) string {
					t.Helper()
					token, _, err := dev.Issue(user, time.Hour)
					require.NoError(t, err)
					return token
				},
			})
		})
	}
}
