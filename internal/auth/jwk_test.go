package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/auth"
)

// An unreadable key does not hide a readable key.
func TestAMalformedKeyLocksNobodyOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, sound := rsaKey(t, 2048, "other")
	good, err := json.Marshal(sound)
	require.NoError(t, err)
	own, err := json.Marshal(map[string]any{"kty": "RSA", "kid": "r1", "n": b64(w.rsa.N), "e": "AQAB"})
	require.NoError(t, err)
	for _, bad := range []string{
		`{"kty":"RSA","kid":123,"n":"AQAB","e":"AQAB"}`, `{"kty":"RSA","kid":"b","use":["sig"]}`, `{"kty":"RSA","kid":"b","e":65537}`, `{"kty":["RSA"]}`, `{"kid":{}}`, `{"alg":null,"n":false}`,
		`"a string"`, `null`, `7`, `[]`, `{}`, `[{"kid":"r1"}]`, `{"kid":"b","kid":"c"}`, `{"x":{"y":1,"y":1}}`, `{"kid":"\ud800"}`, "{\"kid\":\"\xff\"}", `{"KID":"r1"}`, `{"n":1e999}`,
		strings.Replace(string(own), `"kid":"r1"`, `"kid":"r1","KID":"r2","kid":"r1"`, 1),
	} {
		w.set = []byte(`{"issued":1,"keys":[` + bad + `,` + string(own) + `,` + bad + `,` + string(good) + `]}`)
		keys := auth.NewKeySet(w.URL, w.Client(), w.Now, zap.NewNop())
		who, err := timeless(auth.NewJWT(auth.Rules{Issuer: iss, Audiences: []string{aud}}, keys, w.Now).
			Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(nil))))
		require.NoErrorf(t, err, "beside %q", bad)
		require.Equal(t, ann, who)
	}
	for _, set := range []string{`[]`, `{"keys":{}}`, `{"KEYS":[` + string(own) + `]}`, `{"keys":[` + string(own) + `],"keys":[]}`, `{"keys":[` + string(own) + `]}{}`, `{"keys":[` + string(own)} {
		w.set = []byte(set)
		keys := auth.NewKeySet(w.URL, w.Client(), w.Now, zap.NewNop())
		require.ErrorContainsf(t, keys.Ready(t.Context()), "not a JWK set", "%.30s", set)
	}
	w.set = []byte(`{"keys":[` + string(own) + `],"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	require.ErrorContains(t, auth.NewKeySet(w.URL, w.Client(), w.Now, zap.NewNop()).Ready(t.Context()), "has more than 1048576 bytes")
}

// A set with only unsound keys leaves no key for the check of a token. An RSA key with the exponent 1
// would accept every signature.
func TestASetOfUnsoundKeysIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	changed := func(jwk map[string]any, names ...string) func(values ...any) map[string]any {
		return func(values ...any) map[string]any {
			out := maps.Clone(jwk)
			for i, name := range names {
				out[name] = values[i]
			}
			return out
		}
	}
	_, rsaJWK := rsaKey(t, 2048, "r")
	_, ecJWK := ecKey(t, "e")
	exponent, point := changed(rsaJWK, "e"), changed(ecJWK, "x", "y")
	long := func(bit uint) string { return b64(new(big.Int).Lsh(big.NewInt(1), bit)) }
	small := b64(big.NewInt(1))
	for name, key := range map[string]map[string]any{
		"the exponent 1":                  exponent(small),
		"the exponent 2":                  exponent(b64(big.NewInt(2))),
		"an exponent of 32 bits":          exponent(long(31)),
		"an exponent of 65 bits":          exponent(long(64)),
		"an algorithm of another type":    changed(rsaJWK, "alg")("ES256"),
		"an x of 257 bits":                point(long(256), small),
		"a y of 257 bits":                 point(small, long(256)),
		"a point that is not the curve's": point(small, small),
		"a key of another curve":          p384Key(t),
	} {
		w.publish(key)
		err := auth.NewKeySet(w.URL, w.Client(), w.Now, zap.NewNop()).Ready(t.Context())
		require.ErrorContains(t, err, "no sound signing key", name)
	}
	for _, e := range []int64{3, 1<<31 - 1} {
		w.publish(exponent(b64(big.NewInt(e))))
		require.NoError(t, auth.NewKeySet(w.URL, w.Client(), w.Now, zap.NewNop()).Ready(t.Context()), e)
	}
}

func p384Key(t *testing.T) map[string]any {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	point, err := key.PublicKey.Bytes()
	require.NoError(t, err)
	return map[string]any{"kty": "EC", "crv": "P-384", "kid": "e",
		"x": base64.RawURLEncoding.EncodeToString(point[1:49]), "y": base64.RawURLEncoding.EncodeToString(point[49:])}
}

// No token is checked by a certificate, so a thumbprint that does not fit its key refuses no user.
func TestCertificatesBesideAKeyAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, jwk := rsaKey(t, 2048, "r1")
	jwk["n"], jwk["x5t"], jwk["x5c"], jwk["x5u"] = b64(w.rsa.N), "bm90IGEgdGh1bWJwcmludA", []string{"AAAA"}, "http://issuer.example/cert"
	w.publish(jwk)
	who, err := timeless(w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(nil))))
	require.NoError(t, err)
	assert.Equal(t, ann, who)
}

// The algorithm of a token distinguishes keys with the same id. If the keys also have the same
// algorithm, each of these keys may check the token.
func TestKeysWithOneIDAreAllUsable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, firstJWK := rsaKey(t, 2048, "k")
	second, secondJWK := rsaKey(t, 2048, "k")
	third, thirdJWK := rsaKey(t, 2048, "k")
	point, pointJWK := ecKey(t, "k")
	secondJWK["alg"] = "PS256"
	w.publish(pointJWK, firstJWK, secondJWK, thirdJWK)
	verify := func(method jwt.SigningMethod, key any) error {
		token := sign(t, method, key, "k", w.claims(nil))
		for range 2 { // the verifier remembers the token after the first round
			if _, err := w.verifier.Verify(t.Context(), token); err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, verify(jwt.SigningMethodES256, point))
	require.NoError(t, verify(jwt.SigningMethodRS256, first))
	require.NoError(t, verify(jwt.SigningMethodPS256, second))
	require.NoError(t, verify(jwt.SigningMethodRS256, third))
	refused(t, verify(jwt.SigningMethodRS256, second))
	refused(t, verify(jwt.SigningMethodPS256, first))
	refused(t, verify(jwt.SigningMethodRS256, w.rsa))
}

// All readers must understand the header of a token in the same way.
func TestAHeaderIsReadStrictly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(nil))
	_, rest, _ := strings.Cut(token, ".")
	claims, _, _ := strings.Cut(rest, ".")
	for _, header := range []string{
		`{"alg":"RS256"}`, `{"alg":"RS256","kid":""}`, `{"alg":"RS256","kid":7}`,
		`{"alg":"RS256","kid":"e1","kid":"r1"}`, `{"alg":"ES256","alg":"RS256","kid":"r1"}`, `{"alg":"RS256","kid":"r1","x":"\ud800"}`, `{"alg":"RS256","kid":"r1"}{}`, `["RS256"]`, `null`, ``,
	} {
		text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + claims
		signature, err := jwt.SigningMethodRS256.Sign(text, w.rsa)
		require.NoError(t, err)
		_, err = w.verifier.Verify(t.Context(), text+"."+base64.RawURLEncoding.EncodeToString(signature))
		refused(t, err)
	}
	assert.Zero(t, w.fetches.Load(), "none of them names a key to fetch")
}
