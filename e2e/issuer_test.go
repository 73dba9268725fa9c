package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// issuer signs tokens, and publishes its key on loopback.
type issuer struct {
	key *rsa.PrivateKey
	url string
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		number := base64.RawURLEncoding.EncodeToString
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k", "n": number(key.N.Bytes()), "e": number(big.NewInt(int64(key.E)).Bytes()),
		}}}))
	}))
	t.Cleanup(server.Close)
	return issuer{key, server.URL}
}

// token returns a token for a deployment whose environment is env.
func (i issuer) token(t *testing.T, user string, env map[string]string) string {
	t.Helper()
	part := func(v any) string {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"alg": "RS256", "kid": "k"}) + "." + part(map[string]any{
		"iss": env["FANFARE_JWT_ISSUER"], "aud": env["FANFARE_JWT_AUDIENCE"], "sub": user, "exp": time.Now().Add(time.Hour).Unix(),
	})
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	require.NoError(t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
