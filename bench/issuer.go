package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// issuer is an issuer of tokens. It has one key, and publishes the key on loopback.
type issuer struct {
	server *httptest.Server
	key    *ecdsa.PrivateKey
	// stalled makes the issuer leave requests for its keys unanswered.
	stalled atomic.Bool
}

const issuerName = "bench"

func newIssuer() (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	point, err := key.PublicKey.Bytes() // the bytes are 4, X and Y
	if err != nil {
		return nil, err
	}
	text := base64.RawURLEncoding.EncodeToString
	set, err := json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "kid": issuerName, "x": text(point[1:33]), "y": text(point[33:]),
	}}})
	if err != nil {
		return nil, err
	}
	i := &issuer{key: key}
	i.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.stalled.Load() {
			<-r.Context().Done()
			return
		}
		_, _ = w.Write(set) // Write fails only if the process that asks has ended
	}))
	return i, nil
}

// env returns the settings with which a server checks the issuer's tokens.
func (i *issuer) env() []string {
	return []string{
		"FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=" + issuerName, "FANFARE_JWT_AUDIENCE=" + issuerName, "FANFARE_JWKS_URL=" + i.server.URL,
	}
}

// Issue implements tokens.
func (i *issuer) Issue(user string, ttl time.Duration, _ ...string) (string, time.Time, error) {
	expires := time.Now().Add(ttl)
	token, err := i.sign(issuerName, user, expires)
	return token, expires, err
}

// sign returns a token that names the key kid.
func (i *issuer) sign(kid, user string, expires time.Time) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.RegisteredClaims{
		Issuer: issuerName, Audience: jwt.ClaimStrings{issuerName}, Subject: user, ExpiresAt: jwt.NewNumericDate(expires),
	})
	t.Header["kid"] = kid
	return t.SignedString(i.key)
}
