package auth_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/auth"
	"fanfare/internal/id"
)

func publicPEM(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func edKey(t *testing.T, kid string) (ed25519.PrivateKey, map[string]any) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return key, map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": base64.RawURLEncoding.EncodeToString(public)}
}

// Each key checks only the algorithms of its type. If the key names an algorithm, the key checks only this algorithm.
func TestEachAlgorithmIsForItsKeysOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	named, namedJWK := rsaKey(t, 2048, "pss")
	namedJWK["alg"] = "PS384"
	open, openJWK := rsaKey(t, 2048, "open")
	delete(openJWK, "alg")
	ec, ecJWK := ecKey(t, "ec")
	ed, edJWK := edKey(t, "ed")
	short, shortJWK := edKey(t, "short")
	shortJWK["x"] = "AAAA"
	other, otherJWK := edKey(t, "other")
	otherJWK["alg"] = "ES256"
	w.publish(namedJWK, openJWK, ecJWK, edJWK, shortJWK, otherJWK)
	keys := map[string]crypto.Signer{"pss": named, "open": open, "ec": ec, "ed": ed, "short": short, "other": other}
	accepted := map[string]bool{
		"PS384 by pss": true, "RS256 by open": true, "PS256 by open": true, "PS384 by open": true, "PS512 by open": true,
		"ES256 by ec": true, "EdDSA by ed": true,
	}
	methods := []jwt.SigningMethod{
		jwt.SigningMethodRS256, jwt.SigningMethodRS384, jwt.SigningMethodPS256, jwt.SigningMethodPS384, jwt.SigningMethodPS512,
		jwt.SigningMethodES256, jwt.SigningMethodEdDSA,
	}
	seen := 0
	for _, method := range methods {
		for signer, key := range keys {
			for kid := range keys {
				token := jwt.NewWithClaims(method, w.claims(nil))
				token.Header["kid"] = kid
				text, err := token.SignedString(key)
				if err != nil {
					continue // a key of another type cannot sign with this algorithm
				}
				who, err := timeless(w.verifier.Verify(t.Context(), text))
				if kid == signer && accepted[method.Alg()+" by "+kid] {
					seen++
					assert.NoErrorf(t, err, "%s by %s", method.Alg(), kid)
					assert.Equal(t, ann, who)
					continue
				}
				refused(t, err)
			}
		}
	}
	assert.Equal(t, len(accepted), seen)
	for kid, key := range keys { // algorithm confusion: the published key serves as a secret
		secrets := [][]byte{publicPEM(t, key)}
		if public, ok := key.Public().(ed25519.PublicKey); ok {
			secrets = append(secrets, public)
		}
		if public, ok := key.Public().(*rsa.PublicKey); ok {
			secrets = append(secrets, x509.MarshalPKCS1PublicKey(public), public.N.Bytes())
		}
		for _, secret := range secrets {
			for _, method := range []jwt.SigningMethod{jwt.SigningMethodHS256, jwt.SigningMethodHS512} {
				_, err := w.verifier.Verify(t.Context(), sign(t, method, secret, kid, w.claims(nil)))
				refused(t, err)
			}
		}
		_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, kid, w.claims(nil)))
		refused(t, err)
	}
}

// The verifier remembers an Ed25519 token like any other token, and looks its key up each time.
func TestATokenOfAnyKeyIsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, jwk := edKey(t, "ed")
	w.publish(jwk)
	token := sign(t, jwt.SigningMethodEdDSA, key, "ed", w.claims(nil))
	for range 2 {
		who, err := timeless(w.verifier.Verify(t.Context(), token))
		require.NoError(t, err)
		assert.Equal(t, ann, who)
	}
	_, replaced := edKey(t, "ed")
	w.publish(replaced)
	w.Advance(time.Minute)
	_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodEdDSA, key, "unknown", w.claims(nil)))
	require.Error(t, err, "it makes the verifier fetch the keys")
	_, err = w.verifier.Verify(t.Context(), token)
	refused(t, err)
}

func TestTheUserIsTheConfiguredClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	verifier := auth.NewJWT(auth.Rules{Issuer: iss, Audiences: []string{"x", aud}, UserClaim: "https://example.com/user", Scopes: auth.Scopes{Act: "fanfare/act", Delete: "fanfare/remove"}}, w.keys, w.Now)
	for name, c := range map[string]struct {
		change map[string]any
		want   auth.Identity // the zero Identity: the token is refused
	}{
		"the claim":              {map[string]any{"https://example.com/user": "bob"}, auth.Identity{User: "bob"}},
		"no sub":                 {map[string]any{"https://example.com/user": "bob", "sub": nil}, auth.Identity{User: "bob"}},
		"a sub of another form":  {map[string]any{"https://example.com/user": "bob", "sub": "a b/c"}, auth.Identity{User: "bob"}},
		"no such claim":          {nil, auth.Identity{}},
		"the claim in capitals":  {map[string]any{"HTTPS://EXAMPLE.COM/USER": "bob"}, auth.Identity{}},
		"a number":               {map[string]any{"https://example.com/user": 7}, auth.Identity{}},
		"a list":                 {map[string]any{"https://example.com/user": []string{"bob"}}, auth.Identity{}},
		"null":                   {map[string]any{"https://example.com/user": nil}, auth.Identity{}},
		"empty":                  {map[string]any{"https://example.com/user": ""}, auth.Identity{}},
		"no user id":             {map[string]any{"https://example.com/user": "bob/.."}, auth.Identity{}},
		"a scope of its own":     {map[string]any{"scope": "openid fanfare/act"}, auth.Identity{Service: "ann"}},
		"the scope of others":    {map[string]any{"https://example.com/user": "bob", "scope": "fanfare:act"}, auth.Identity{User: "bob"}},
		"a deletion of its own":  {map[string]any{"scope": "fanfare/act fanfare/remove"}, auth.Identity{Service: "ann", Deletes: true}},
		"the deletion of others": {map[string]any{"scope": "fanfare/act fanfare:delete"}, auth.Identity{Service: "ann"}},
		"a client of Cognito":    {map[string]any{"aud": nil, "client_id": "x", "token_use": "access", "sub": "x", "scope": "fanfare/act"}, auth.Identity{Service: "x"}},
		"an audience of neither": {map[string]any{"https://example.com/user": "bob", "aud": "y"}, auth.Identity{}},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := timeless(verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(c.change))))
			assert.Equal(t, c.want, who)
			if c.want == (auth.Identity{}) {
				refused(t, err)
				return
			}
			assert.NoError(t, err)
		})
	}
}

func TestTheScopeMakesAService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	both, service := auth.Identity{User: "ann", Service: "ann"}, auth.Identity{Service: "https://client.example/1 2"}
	for name, c := range map[string]struct {
		change map[string]any
		want   auth.Identity // the zero Identity: the token is refused
	}{
		"scope, a string":             {map[string]any{"scope": "fanfare:act"}, both},
		"scope, a string of many":     {map[string]any{"scope": "openid fanfare:act email"}, both},
		"scope, an array":             {map[string]any{"scope": []string{"openid", "fanfare:act"}}, both},
		"scp, a string":               {map[string]any{"scp": "fanfare:act"}, both},
		"scp, an array":               {map[string]any{"scp": []string{"fanfare:act"}}, both},
		"scp beside a scope":          {map[string]any{"scope": "openid", "scp": []string{"fanfare:act"}}, both},
		"the scope to delete, too":    {map[string]any{"scope": "fanfare:act fanfare:delete"}, auth.Identity{User: "ann", Service: "ann", Deletes: true}},
		"one in each claim":           {map[string]any{"scope": "fanfare:delete", "scp": []string{"fanfare:act"}}, auth.Identity{User: "ann", Service: "ann", Deletes: true}},
		"the scope to delete alone":   {map[string]any{"scope": "fanfare:delete"}, ann},
		"part of the scope to delete": {map[string]any{"scope": "fanfare:act fanfare:deletes fanfare"}, both},
		"a sub that is no user":       {map[string]any{"scope": "fanfare:act", "sub": service.Service}, service},
		"no sub":                      {map[string]any{"scope": "fanfare:act", "sub": nil}, auth.Identity{}},
		"a sub that is too long":      {map[string]any{"scope": "fanfare:act", "sub": strings.Repeat("s", 256)}, auth.Identity{}},
		"no scope":                    {nil, ann},
		"scope of another case":       {map[string]any{"scope": "Fanfare:Act"}, ann},
		"claim of another case":       {map[string]any{"SCOPE": "fanfare:act", "Scp": "fanfare:act"}, ann},
		"part of a scope":             {map[string]any{"scope": "fanfare:actor xfanfare:act"}, ann},
		"scopes joined by no space":   {map[string]any{"scope": "openid,fanfare:act"}, ann},
		"scopes joined by a tab":      {map[string]any{"scope": "openid\tfanfare:act"}, ann},
		"scope, an array of an array": {map[string]any{"scope": []any{[]string{"fanfare:act"}}}, ann},
		"scope, an array with more":   {map[string]any{"scope": []any{"fanfare:act", 7}}, ann},
		"scope, a string in an array": {map[string]any{"scope": []string{"openid fanfare:act"}}, ann},
		"scope, an object":            {map[string]any{"scope": map[string]any{"fanfare:act": true}}, ann},
		"scope, a number":             {map[string]any{"scope": 7}, ann},
		"no scope, no user":           {map[string]any{"sub": service.Service}, auth.Identity{}},
	} {
		t.Run(name, func(t *testing.T) {
			token := sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(c.change))
			for range 3 { // the verifier remembers the token after the first round
				who, err := timeless(w.verifier.Verify(t.Context(), token))
				assert.Equal(t, c.want, who)
				if c.want == (auth.Identity{}) {
					refused(t, err)
					continue
				}
				assert.NoError(t, err)
			}
		})
	}
}

// A claim is matched by its exact name, and must occur only once (RFC 7519, section 4).
func TestOtherNamesOfAClaimAreOtherClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"sub", "exp", "iss", "aud"} {
		claims := w.claims(nil)
		value := claims[name]
		claims[strings.ToUpper(name)] = value
		_, err := w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r1", claims))
		assert.NoError(t, err, "one claim more")
		delete(claims, name)
		_, err = w.verifier.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r1", claims))
		refused(t, err)
	}

	unsigned := jwt.NewWithClaims(jwt.SigningMethodRS256, w.claims(nil))
	unsigned.Header["kid"] = "r1"
	text, err := unsigned.SigningString()
	require.NoError(t, err)
	header, encoded, _ := strings.Cut(text, ".")
	claims, err := base64.RawURLEncoding.DecodeString(encoded)
	require.NoError(t, err)
	twice := header + "." + base64.RawURLEncoding.EncodeToString(append(claims[:len(claims)-1], `,"sub":"bob"}`...))
	signature, err := jwt.SigningMethodRS256.Sign(twice, w.rsa)
	require.NoError(t, err)
	_, err = w.verifier.Verify(t.Context(), twice+"."+base64.RawURLEncoding.EncodeToString(signature))
	refused(t, err)
}

// discovery publishes a discovery document beside the keys of an issuer.
func discovery(t *testing.T, w *world, status int, document map[string]any) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/keys":
			w.Config.Handler.ServeHTTP(out, r)
		case r.URL.Path != "/pool/.well-known/openid-configuration":
			http.NotFound(out, r)
		default:
			filled := map[string]any{}
			for name, value := range document {
				if text, ok := value.(string); ok {
					value = strings.ReplaceAll(text, "SELF", "http://"+r.Host)
				}
				filled[name] = value
			}
			out.WriteHeader(status)
			if err := json.NewEncoder(out).Encode(filled); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestKeysAreDiscoveredFromTheIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := map[string]any{"issuer": "SELF/pool", "jwks_uri": "SELF/keys", "id_token_signing_alg_values_supported": []string{"none"}}
	with := func(name string, value any) map[string]any {
		out := map[string]any{"issuer": good["issuer"], "jwks_uri": good["jwks_uri"]}
		out[name] = value
		return out
	}
	for name, c := range map[string]struct {
		status   int
		document map[string]any
		slash    string // the end of the configured issuer's URL
		fault    string // the fault of the document; "" if it is accepted
	}{
		"the issuer's":            {200, good, "", ""},
		"of an issuer with slash": {200, with("issuer", "SELF/pool/"), "/", ""},
		"the slash in one only":   {200, good, "/", "is of another issuer"},
		"of another issuer":       {200, with("issuer", "https://evil.example"), "", "is of another issuer (\"https://evil.example\")"},
		"of none":                 {200, with("issuer", nil), "", "is of another issuer"},
		"of a number":             {200, with("issuer", 7), "", "is not a discovery document"},
		"without keys":            {200, with("jwks_uri", nil), "", "names no URL of keys"},
		"keys without a host":     {200, with("jwks_uri", "/keys"), "", "names no URL of keys"},
		"keys with a password":    {200, with("jwks_uri", "https://u:hunter2@issuer.example/keys"), "", "names no URL of keys"},
		"keys of another host":    {200, with("jwks_uri", "http://127.0.0.2:1/keys"), "", "not at an https URL"},
		"keys in a file":          {200, with("jwks_uri", "file://host/etc/passwd"), "", "not at an https URL"},
		"away":                    {502, good, "", "answered 502"},
	} {
		t.Run(name, func(t *testing.T) {
			server := discovery(t, w, c.status, c.document)
			issuer := server.URL + "/pool" + c.slash
			keys := auth.NewDiscoveredKeySet(issuer, server.Client(), w.Now, zap.NewNop())
			err := keys.Ready(t.Context())
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				assert.ErrorContains(t, err, "set FANFARE_JWKS_URL")
				assert.NotContains(t, err.Error(), "hunter2")
				return
			}
			require.NoError(t, err)
			who, err := timeless(auth.NewJWT(auth.Rules{Issuer: issuer, Audiences: []string{aud}}, keys, w.Now).
				Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "r1", w.claims(map[string]any{"iss": issuer}))))
			require.NoError(t, err)
			assert.Equal(t, ann, who)
		})
	}
}

// No header and no claims make the verifier panic. The verifier accepts no token that names
// neither a user nor a service.
func FuzzTokens(f *testing.F) {
	c := newClock()
	dev, err := auth.NewDev([]byte(secret), c.Now)
	require.NoError(f, err)
	good := fmt.Sprintf(`{"iss":"fanfare-dev","exp":%d,"sub":"ann"`, c.Now().Add(time.Hour).Unix())
	for _, claims := range []string{
		`}`, `,"scope":"fanfare:act"}`, `,"scp":["fanfare:act"],"sub":"a b"}`, `,"sub":7}`, `,"sub":null}`, `,"scope":{}}`, `,"Sub":"x#y"}`, `,"aud":[1]}`, `,"exp":1e99}`, `,"iat":"now"}`,
	} {
		f.Add(`{"alg":"HS256","typ":"JWT"}`, good+claims)
	}
	f.Add(`{"alg":"none"}`, good+`}`)
	f.Add(`{"alg":7,"kid":{}}`, `null`)
	f.Add(`null`, `[]`)
	f.Fuzz(func(t *testing.T, header, claims string) {
		text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(text))
		text += "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		who, err := timeless(dev.Verify(t.Context(), text))
		if err != nil {
			require.ErrorAs(t, err, new(*auth.InvalidTokenError))
			require.Equal(t, auth.Identity{}, who)
			return
		}
		require.True(t, id.ValidUser(who.User) || who.User == "" && who.Service != "")
		require.LessOrEqual(t, len(who.Service), 255)
		require.True(t, who.Service == "" || strings.Contains(claims, "act") || strings.Contains(claims, `\u`))
	})
}
