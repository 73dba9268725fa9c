package daemon_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
	"fanfare/internal/httpapi/apitest"
)

// issuer publishes one RSA key on a loopback server and signs tokens with it.
type issuer struct {
	t       *testing.T
	key     *rsa.PrivateKey
	jwksURL string
}

const (
	issuerName = "https://issuer.example"
	audience   = "fanfare-app"
)

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	number := base64.RawURLEncoding.EncodeToString
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
			self := "http://" + r.Host
			assert.NoError(t, json.NewEncoder(w).Encode(map[string]string{"issuer": self, "jwks_uri": self + "/keys"}))
			return
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1", "n": number(key.N.Bytes()), "e": number(big.NewInt(int64(key.E)).Bytes()),
		}}}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &issuer{t, key, server.URL}
}

func (i *issuer) settings() config.Config {
	i.t.Helper()
	return settings(i.t, i.t.TempDir(), "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER="+issuerName, "FANFARE_JWT_AUDIENCE="+audience, "FANFARE_JWKS_URL="+i.jwksURL)
}

// token returns a token of user with some changed claims.
func (i *issuer) token(user string, key *rsa.PrivateKey, change jwt.MapClaims) string {
	i.t.Helper()
	claims := jwt.MapClaims{"iss": issuerName, "aud": audience, "sub": user, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, change)
	unsigned := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	unsigned.Header["kid"] = "k1"
	token, err := unsigned.SignedString(key)
	require.NoError(i.t, err)
	return token
}

func TestContractWithTokensOfAnIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	at, _ := start(t, i.settings())
	apitest.Exercise(t, apitest.Target{
		URL: "http://" + at.HTTP, LikesByUser: true, Notifications: true,
		Token: func(_ *testing.T, user string) string { return i.token(user, i.key, nil) },
		Service: func(_ *testing.T, subject string, deletes bool) string {
			scopes := []string{"fanfare:act"}
			if deletes {
				scopes = append(scopes, "fanfare:delete")
			}
			return i.token(subject+"@clients/1", i.key, jwt.MapClaims{"scp": scopes})
		},
	})
}

// The issuer is the only required setting, because the issuer's discovery document names the keys. The
// tokens of this test have the user in another claim than sub.
func TestAnIssuerAloneIsEnough(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	at, _ := start(t, settings(t, t.TempDir(), "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER="+i.jwksURL, "FANFARE_JWT_AUDIENCE=other,"+audience, "FANFARE_JWT_USER_CLAIM=uid"))
	for user, want := range map[string]int{"auth0|5f7c": http.StatusConflict, "a/b": http.StatusUnauthorized} { // no profile yet
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.HTTP+"/v1/me", nil)
		require.NoError(t, err)
		do(t, req, i.token("ann", i.key, jwt.MapClaims{"iss": i.jwksURL, "uid": user}), want)
	}
}

func TestTokensThatTheIssuerDidNotMakeForUsAreRefused(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	at, _ := start(t, i.settings())
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		token string
		want  int
	}{
		"the issuer's":        {i.token("ann", i.key, nil), http.StatusConflict}, // ann has no profile yet
		"a stranger's":        {i.token("ann", stranger, nil), http.StatusUnauthorized},
		"for another app":     {i.token("ann", i.key, jwt.MapClaims{"aud": "other"}), http.StatusUnauthorized},
		"of another issuer":   {i.token("ann", i.key, jwt.MapClaims{"iss": "https://other.example"}), http.StatusUnauthorized},
		"issuer for audience": {i.token("ann", i.key, jwt.MapClaims{"iss": audience, "aud": issuerName}), http.StatusUnauthorized},
		"expired":             {i.token("ann", i.key, jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}), http.StatusUnauthorized},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.HTTP+"/v1/me", nil)
			require.NoError(t, err)
			do(t, req, tt.token, tt.want)
		})
	}
}

// The keys are refreshed every quarter of an hour, which is too long for a test in real time. So the test
// looks for the goroutine that refreshes the keys.
//
//nolint:paralleltest // it looks at the goroutines of all tests
func TestKeysOfAnIssuerAreKeptFresh(t *testing.T) {
	withProfiles := func(cfg config.Config) config.Config {
		cfg.Pprof = true
		return cfg
	}
	at, stop := start(t, withProfiles(newIssuer(t).settings()))
	refreshing := func(admin string) bool {
		return strings.Contains(read(t, "http://"+admin+"/debug/pprof/goroutine?debug=2"), "auth.(*KeySet).Run(")
	}
	until(t, "keys refreshed in the background", func() bool { return refreshing(at.Admin) })
	require.NoError(t, stop())
	at, _ = start(t, withProfiles(settings(t, t.TempDir())))
	assert.False(t, refreshing(at.Admin), "dev tokens need no issuer's keys")
}

// read returns the body of the answer at a URL.
func read(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s answered %s, %v", url, res.Status, err)
	}
	return string(text)
}

// until waits until a condition holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("not in time: " + what)
		case <-tick.C:
		}
	}
}
