package auth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/auth"
)

const secret = "0123456789abcdef0123456789abcdef"

var ann = auth.Identity{User: "ann"}

// clock is a clock whose time the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 7, 14, 9, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// timeless returns an identity without its time.
func timeless(who auth.Identity, err error) (auth.Identity, error) {
	who.Until = time.Time{}
	return who, err
}

func refused(t *testing.T, err error) {
	t.Helper()
	assert.ErrorAs(t, err, new(*auth.InvalidTokenError))
}

func TestDevTokenSpeaksForItsUserUntilItEnds(t *testing.T) {
	t.Parallel()
	c := newClock()
	dev, err := auth.NewDev([]byte(secret), c.Now)
	require.NoError(t, err)
	token, expires, err := dev.Issue("ann", time.Minute)
	require.NoErrorf(t, err, "issued until %s", expires)
	require.Truef(t, expires.Equal(c.Now().Add(time.Minute)), "issued until %s, %v", expires, err)
	who, err := dev.Verify(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, "ann", who.User)
	require.Equal(t, time.Minute+30*time.Second, who.Until.Sub(c.Now()), "with the leeway")
	c.Advance(who.Until.Sub(c.Now()) - 1)
	_, err = dev.Verify(t.Context(), token)
	require.NoError(t, err)
	c.Advance(1)
	_, err = dev.Verify(t.Context(), token)
	refused(t, err)
}

func TestDevRefusesTokensOfOthers(t *testing.T) {
	t.Parallel()
	c := newClock()
	dev, err := auth.NewDev([]byte(secret), c.Now)
	require.NoError(t, err)
	other, err := auth.NewDev([]byte(strings.Repeat("x", 32)), c.Now)
	require.NoError(t, err)
	foreign, _, err := other.Issue("ann", time.Minute)
	require.NoError(t, err)
	good := jwt.MapClaims{"iss": "fanfare-dev", "sub": "ann", "exp": c.Now().Add(time.Hour).Unix()}
	with := func(name string, value any) jwt.MapClaims {
		out := jwt.MapClaims{}
		maps.Copy(out, good)
		if value == nil {
			delete(out, name)
		} else {
			out[name] = value
		}
		return out
	}
	for name, token := range map[string]string{
		"another secret":         foreign,
		"no signature":           sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", good),
		"another algorithm":      sign(t, jwt.SigningMethodHS512, []byte(secret), "", good),
		"another issuer":         sign(t, jwt.SigningMethodHS256, []byte(secret), "", with("iss", "else")),
		"no end":                 sign(t, jwt.SigningMethodHS256, []byte(secret), "", with("exp", nil)),
		"no user":                sign(t, jwt.SigningMethodHS256, []byte(secret), "", with("sub", nil)),
		"user out of grammar":    sign(t, jwt.SigningMethodHS256, []byte(secret), "", with("sub", "a#b")),
		"user too long":          sign(t, jwt.SigningMethodHS256, []byte(secret), "", with("sub", strings.Repeat("a", 65))),
		"not valid yet":          sign(t, jwt.SigningMethodHS256, []byte(secret), "", with("nbf", c.Now().Add(time.Hour).Unix())),
		"nothing":                "",
		"not a token":            "abc",
		"a token cut short":      foreign[:len(foreign)-10],
		"claims of another type": sign(t, jwt.SigningMethodHS256, []byte(secret), "", with("sub", 7)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dev.Verify(t.Context(), token)
			refused(t, err)
			if token != "" && err != nil && strings.Contains(err.Error(), token) {
				t.Error("the error quotes the token")
			}
		})
	}
}

func TestDevNeedsALongSecret(t *testing.T) {
	t.Parallel()
	_, err := auth.NewDev([]byte(secret[:31]), time.Now)
	assert.Error(t, err, "31 bytes were accepted")
}

func sign(t *testing.T, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	require.NoError(t, err)
	return text
}

// issuer publishes keys on a loopback server.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex
	set     any // the body of the answer; []byte is sent unchanged
	down    atomic.Bool
	fetches atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		if i.down.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		if raw, ok := i.set.([]byte); ok {
			_, _ = w.Write(raw) // the write fails only if the client has left and has failed its test
			return
		}
		if err := json.NewEncoder(w).Encode(i.set); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) publish(keys ...map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set = map[string]any{"keys": keys}
}

func b64(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }

func rsaKey(t *testing.T, bits int, kid string) (*rsa.PrivateKey, map[string]any) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	return key, map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": b64(key.N), "e": b64(big.NewInt(int64(key.E)))}
}

func ecKey(t *testing.T, kid string) (*ecdsa.PrivateKey, map[string]any) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	point, err := key.PublicKey.Bytes()
	require.NoError(t, err)
	return key, map[string]any{"kty": "EC", "crv": "P-256", "kid": kid,
		"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:])}
}

const (
	iss = "https://cognito-idp.eu-central-1.amazonaws.com/pool"
	aud = "app-client"
)

type world struct {
	*issuer
	*clock
	keys     *auth.KeySet
	verifier *auth.JWT
	rsa      *rsa.PrivateKey
	ec       *ecdsa.PrivateKey
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{issuer: newIssuer(t), clock: newClock()}
	var rsaJWK, ecJWK map[string]any
	w.rsa, rsaJWK = rsaKey(t, 2048, "r1")
	w.ec, ecJWK = ecKey(t, "e1")
	w.publish(rsaJWK, ecJWK)
	w.keys = auth.NewKeySet(w.URL, w.Client(), w.Now, zap.NewNop())
	w.verifier = auth.NewJWT(auth.Rules{Issuer: iss, Audiences: []string{aud}}, w.keys, w.Now)
	return w
}

func (w *world) claims(change map[string]any) jwt.MapClaims {
	out := jwt.MapClaims{"iss": iss, "aud": aud, "sub": "ann", "exp": w.Now().Add(time.Hour).Unix()}
	for k, v := range change {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

func TestJWTAcceptsTheIssuersTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, token := range map[string]string{
		"RS256":                  sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(nil)),
		"ES256":                  sign(t, jwt.SigningMethodES256, w.ec, "e1", w.claims(nil)),
		"audience in a list":     sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"aud": []string{"x", aud}})),
		"Cognito access":         sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"aud": nil, "client_id": aud, "token_use": "access"})),
		"valid in 29 seconds":    sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"nbf": w.Now().Add(29 * time.Second).Unix()})),
		"issued in 29 seconds":   sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"iat": w.Now().Add(29 * time.Second).Unix()})),
		"expired 29 seconds ago": sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"exp": w.Now().Add(-29 * time.Second).Unix()})),
		"valid since a while":    sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"nbf": w.Now().Add(-time.Minute).Unix()})),
	} {
		t.Run(name, func(t *testing.T) {
			if user, err := timeless(w.verifier.Verify(t.Context(), token)); err != nil || user != ann {
				t.Errorf("verified as %+v, %v", user, err)
			}
		})
	}
	n := w.fetches.Load()
	assert.Equalf(t, int64(1), n, "the keys were fetched %d times", n)
}

func TestJWTRefusesEverythingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stranger, _ := rsaKey(t, 2048, "r1")
	public, err := json.Marshal(w.rsa.PublicKey)
	require.NoError(t, err)
	extended := jwt.NewWithClaims(jwt.SigningMethodRS256, w.claims(nil))
	extended.Header["kid"], extended.Header["crit"] = "r1", []string{"b64"}
	demanding, err := extended.SignedString(w.rsa)
	require.NoError(t, err)
	for name, token := range map[string]string{
		"a critical extension":      demanding,
		"HMAC by the public PEM":    sign(t, jwt.SigningMethodHS256, publicPEM(t, w.rsa), "r1", w.claims(nil)),
		"no signature":              sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "r1", w.claims(nil)),
		"HMAC by the public key":    sign(t, jwt.SigningMethodHS256, public, "r1", w.claims(nil)),
		"RS512":                     sign(t, jwt.SigningMethodRS512, w.rsa, "r1", w.claims(nil)),
		"PS256":                     sign(t, jwt.SigningMethodPS256, w.rsa, "r1", w.claims(nil)),
		"a stranger's key":          sign(t, jwt.SigningMethodRS256, stranger, "r1", w.claims(nil)),
		"key for another algorithm": sign(t, jwt.SigningMethodRS256, w.rsa, "e1", w.claims(nil)),
		"no key named":              sign(t, jwt.SigningMethodRS256, w.rsa, "", w.claims(nil)),
		"unknown key":               sign(t, jwt.SigningMethodRS256, w.rsa, "r9", w.claims(nil)),
		"expired":                   sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"exp": w.Now().Add(-30 * time.Second).Unix()})),
		"valid in 31 seconds":       sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"nbf": w.Now().Add(31 * time.Second).Unix()})),
		"issued in 31 seconds":      sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"iat": w.Now().Add(31 * time.Second).Unix()})),
		"no end":                    sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"exp": nil})),
		"not yet":                   sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"nbf": w.Now().Add(time.Minute).Unix()})),
		"another issuer":            sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"iss": "https://evil"})),
		"another audience":          sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"aud": "other"})),
		"no audience":               sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"aud": nil})),
		"client beside an audience": sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"aud": "other", "client_id": aud, "token_use": "access"})),
		"Cognito id token":          sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"token_use": "id"})),
		"Cognito, another client":   sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"aud": nil, "client_id": "other", "token_use": "access"})),
		"user out of grammar":       sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"sub": "a b"})),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.verifier.Verify(t.Context(), token)
			refused(t, err)
		})
	}
}

// A verified token is refused like any other token once the token has expired, or once its key is
// withdrawn, too old, or replaced by a key with the same id.
func TestAVerifiedTokenIsRefusedOnceItsTimeOrItsKeyIsGone(t *testing.T) {
	t.Parallel()
	_, renamed := rsaKey(t, 2048, "r2")
	_, replaced := rsaKey(t, 2048, "r1")
	for name, end := range map[string]func(w *world){
		"its time":          func(w *world) { w.Advance(49 * time.Hour) },
		"a withdrawn key":   func(w *world) { w.publish(renamed) },
		"a replaced key":    func(w *world) { w.publish(replaced) },
		"keys that are old": func(w *world) { w.down.Store(true); w.Advance(25 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			token := sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"exp": w.Now().Add(48 * time.Hour).Unix()}))
			for range 3 {
				user, err := timeless(w.verifier.Verify(t.Context(), token))
				require.NoError(t, err)
				require.Equal(t, ann, user)
			}
			assert.Positive(t, w.verifier.RememberedBytes())
			end(w)
			w.Advance(time.Minute)
			_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "unknown", w.claims(nil)))
			assert.Error(t, err, "it makes the verifier fetch the keys")
			for range 2 {
				_, err := w.verifier.Verify(t.Context(), token)
				assert.Error(t, err)
			}
		})
	}
}

// The memory for the tokens of many users stays within the bound.
func TestVerifiedTokensAreRememberedWithinABound(t *testing.T) {
	t.Parallel()
	const most = 8 << 20
	dev, err := auth.NewDev([]byte(secret), newClock().Now)
	require.NoError(t, err)
	for i := range 14_000 {
		user := fmt.Sprint("user", i)
		token, _, err := dev.Issue(user, time.Hour)
		require.NoError(t, err)
		for range 2 {
			got, err := timeless(dev.Verify(t.Context(), token))
			require.NoError(t, err)
			require.Equal(t, auth.Identity{User: user}, got)
		}
	}
	assert.LessOrEqual(t, dev.RememberedBytes(), int64(most))
	assert.Greater(t, dev.RememberedBytes(), int64(most/2))
}

func TestRotatedKeyIsFetchedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	verify := func(key crypto.Signer, kid string) error {
		_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, key, kid, w.claims(nil)))
		return err
	}
	require.NoError(t, verify(w.rsa, "r1"))
	next, jwk := rsaKey(t, 2048, "r2")
	w.publish(jwk)
	w.Advance(time.Minute)
	assert.NoError(t, verify(next, "r2"), "new key")
	refused(t, verify(w.rsa, "r1")) // the issuer withdrew its key
}

func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.keys.Ready(t.Context()))
	token := sign(t, jwt.SigningMethodRS256, w.rsa, "made-up", w.claims(nil))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := w.verifier.Verify(t.Context(), token)
			if _, fetching := errors.AsType[*auth.UnavailableError](err); !fetching {
				refused(t, err)
			}
		})
	}
	wg.Wait()
	n := w.fetches.Load()
	assert.Equalf(t, int64(1), n, "the keys were fetched %d times", n)
}

// While the issuer does not answer, tokens with unknown key ids do not wait: one caller
// fetches the keys, and all other callers get an answer at once. The answer is not a refusal,
// because the key may be the issuer's newest. A token with a known key needs no fetch.
func TestUnknownKeysDoNotWaitForAStalledIssuer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key, published := rsaKey(t, 2048, "r1")
		set, err := json.Marshal(map[string]any{"keys": []any{published}})
		require.NoError(t, err)
		stalled := true
		keys := auth.NewKeySet("http://issuer/keys", &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if stalled {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(set))}, nil
		})}, time.Now, zap.NewNop())
		for _, known := range []bool{false, true} {
			if known {
				stalled = false
				<-time.After(time.Minute) // virtual time
				require.NoError(t, keys.Ready(t.Context()))
				stalled = true
				<-time.After(time.Minute)
			}
			began := time.Now()
			var wg sync.WaitGroup
			var mu sync.Mutex
			unchecked, late := 0, 0
			for i := range 1024 {
				wg.Go(func() {
					_, err := keys.Key(t.Context(), fmt.Sprint("made-up", i), "RS256")
					mu.Lock()
					defer mu.Unlock()
					if _, ok := errors.AsType[*auth.UnavailableError](err); ok {
						unchecked++
					}
					if time.Since(began) > 0 {
						late++
					}
				})
			}
			synctest.Wait()
			if known {
				got, err := keys.Key(t.Context(), "r1", "RS256")
				if public, ok := got.(*rsa.PublicKey); err != nil || !ok || !key.PublicKey.Equal(public) {
					t.Errorf("the known key: %v", err)
				}
			}
			wg.Wait()
			if late != 1 || unchecked != 1024 {
				t.Errorf("keys known %t: %d not checked, %d late", known, unchecked, late)
			}
		}
	})
}

func TestKeysSurviveAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(nil))
	require.NoError(t, w.keys.Ready(t.Context()))
	w.down.Store(true)
	w.Advance(30 * time.Minute)
	if user, err := timeless(w.verifier.Verify(t.Context(), token)); err != nil || user != ann {
		t.Errorf("during the outage: %+v, %v", user, err)
	}
	assert.NoError(t, w.keys.Ready(t.Context()), "not ready")
	// An unknown key id may belong to a new key, and only the issuer knows its keys.
	_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r2", w.claims(nil)))
	assert.ErrorAs(t, err, new(*auth.UnavailableError), "unknown key during the outage")
}

// A withdrawn key must not stay in use in a long outage of the issuer.
func TestKeysGrowTooOldInALongOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.keys.Ready(t.Context()))
	verify := func() error {
		_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(nil)))
		return err
	}
	w.down.Store(true)
	w.Advance(24 * time.Hour)
	assert.NoError(t, verify(), "after 24 hours")
	w.Advance(time.Second)
	assert.ErrorAs(t, verify(), new(*auth.UnavailableError), "after more than 24 hours")
	assert.Error(t, w.keys.Ready(t.Context()), "ready with keys that are too old")
	w.down.Store(false)
	w.Advance(time.Minute)
	assert.NoError(t, verify(), "after the outage")
}

func TestKeysAreNotTakenFromARedirectWithoutEncryption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	encrypted := httptest.NewTLSServer(w.Config.Handler)
	t.Cleanup(encrypted.Close)
	for name, c := range map[string]struct {
		to string
		ok bool
	}{"to http": {w.URL, false}, "to https": {encrypted.URL, true}} {
		t.Run(name, func(t *testing.T) {
			redirect := httptest.NewTLSServer(http.RedirectHandler(c.to, http.StatusFound))
			t.Cleanup(redirect.Close)
			fetches := w.fetches.Load()
			keys := auth.NewKeySet(redirect.URL, redirect.Client(), w.Now, zap.NewNop())
			err := keys.Ready(t.Context())
			assert.Equalf(t, c.ok, err == nil, "error is %v", err)
			if !c.ok && w.fetches.Load() != fetches {
				t.Error("the redirect was followed")
			}
		})
	}
}

func TestTenRedirectsAreFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		left, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		switch {
		case err != nil:
			t.Error(err)
		case left > 0:
			http.Redirect(out, r, fmt.Sprintf("/%d", left-1), http.StatusFound)
		default:
			w.Config.Handler.ServeHTTP(out, r)
		}
	}))
	t.Cleanup(server.Close)
	ready := func(path string) error {
		return auth.NewKeySet(server.URL+path, server.Client(), w.Now, zap.NewNop()).Ready(t.Context())
	}
	require.NoError(t, ready("/10"))
	require.ErrorContains(t, ready("/11"), "more than 10 times")
}

func TestNothingIsAcceptedBeforeTheFirstKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.down.Store(true)
	token := sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(nil))
	_, err := w.verifier.Verify(t.Context(), token)
	assert.ErrorAs(t, err, new(*auth.UnavailableError))
	assert.Error(t, w.keys.Ready(t.Context()), "ready without keys")
	w.down.Store(false)
	w.Advance(time.Minute)
	if user, err := timeless(w.verifier.Verify(t.Context(), token)); err != nil || user != ann {
		t.Errorf("after the outage: %+v, %v", user, err)
	}
}

func TestUnsoundKeysAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	weak, weakJWK := rsaKey(t, 1024, "weak")
	_, sound := rsaKey(t, 2048, "sound")
	encryption, encryptionJWK := rsaKey(t, 2048, "enc")
	encryptionJWK["use"] = "enc"
	w.publish(weakJWK, sound, encryptionJWK,
		map[string]any{"kty": "EC", "crv": "P-256", "kid": "off", "x": b64(big.NewInt(1)), "y": b64(big.NewInt(1))},
		map[string]any{"kty": "RSA", "kid": "broken", "n": "%", "e": "AQAB"}, map[string]any{"kty": "oct", "kid": "shared", "k": "AA"})
	for kid, key := range map[string]*rsa.PrivateKey{"weak": weak, "enc": encryption} {
		_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, key, kid, w.claims(nil)))
		refused(t, err)
	}
	w.publish(weakJWK)
	w.Advance(time.Minute)
	_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r3", w.claims(nil)))
	assert.ErrorAs(t, err, new(*auth.UnavailableError), "a set without a sound key")
}

// roundTrip is a function that answers requests without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestKeysAreRefreshedInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fetches atomic.Int64
		client := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			fetches.Add(1)
			return nil, errors.New("away")
		})}
		keys := auth.NewKeySet("http://issuer/keys", client, time.Now, zap.NewNop())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- keys.Run(ctx) }()
		<-time.After(time.Hour + time.Minute) // virtual time
		synctest.Wait()
		assert.Equal(t, int64(4), fetches.Load(), "fetches in an hour")
		cancel()
		assert.NoError(t, <-ended)
	})
}

// The name of a service need not have the form of a user id.
func TestADevTokenOfAServiceHasAnyName(t *testing.T) {
	t.Parallel()
	dev, err := auth.NewDev([]byte("0123456789abcdef0123456789abcdef"), time.Now)
	require.NoError(t, err)
	const name = "https://backend.example/jobs"
	token, _, err := dev.Issue(name, time.Hour, auth.ActScope)
	require.NoError(t, err)
	who, err := timeless(dev.Verify(t.Context(), token))
	require.NoError(t, err)
	assert.Equal(t, name, who.Service)
	_, _, err = dev.Issue(name, time.Hour)
	assert.Error(t, err, "a user with this name")
	_, _, err = dev.Issue(strings.Repeat("x", 255), time.Hour, auth.ActScope)
	require.NoError(t, err)
	for _, name := range []string{"", strings.Repeat("x", 256)} {
		_, _, err = dev.Issue(name, time.Hour, auth.ActScope)
		assert.ErrorContains(t, err, "1 to 255 bytes", name)
	}
}

func TestADevTokenIsValidForASecondToAMonth(t *testing.T) {
	t.Parallel()
	dev, err := auth.NewDev([]byte(secret), time.Now)
	require.NoError(t, err)
	for _, ttl := range []time.Duration{time.Second, auth.MaxTokenTTL} {
		_, _, err := dev.Issue("ann", ttl)
		assert.NoError(t, err, ttl)
	}
	for _, ttl := range []time.Duration{-time.Hour, time.Second - 1, auth.MaxTokenTTL + 1} {
		_, _, err := dev.Issue("ann", ttl)
		assert.Error(t, err, ttl)
	}
}
