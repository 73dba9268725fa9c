package auth

import (
	"context"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// leeway is by how much the clock of an issuer, or of another process, may differ.
const leeway = 30 * time.Second

// JWT checks the tokens of one issuer for one audience, by the keys that the issuer
// publishes (RS256 and ES256).
//
// The documented example is Amazon Cognito. Its access tokens have no aud: they name the
// app client in client_id and have token_use access. Set the issuer to
// https://cognito-idp.REGION.amazonaws.com/POOL, the audience to the app client id
// and the key set to ISSUER/.well-known/jwks.json; sub is the user id.
type JWT struct {
	*signed
	audience string
	keys     *KeySet
}

// NewJWT returns a JWT on the clock now.
func NewJWT(issuer, audience string, keys *KeySet, now func() time.Time) *JWT {
	return &JWT{newSigned([]string{"RS256", "ES256"}, issuer, now), audience, keys}
}

type claims struct {
	jwt.RegisteredClaims
	ClientID string `json:"client_id"`
	TokenUse string `json:"token_use"`
}

// Verify implements Verifier.
func (j *JWT) Verify(ctx context.Context, token string) (string, error) {
	c, err := j.verify(token, keyID, func(kid, alg string) (key, id any, err error) {
		key, err = j.keys.Key(ctx, kid, alg)
		return key, key, err // a pointer
	})
	if err != nil {
		return "", err
	}
	if !c.isFor(j.audience) {
		return "", invalid("the token is for another audience")
	}
	return subject(c.RegisteredClaims)
}

// keyID returns the key id of a token's header.
func keyID(header map[string]any) (string, error) {
	if _, critical := header["crit"]; critical { // RFC 7515, 4.1.11: JWT supports no extension
		return "", invalid("the header demands an extension (crit)")
	}
	kid, ok := header["kid"].(string)
	if !ok || kid == "" {
		return "", invalid("the header names no key (kid)")
	}
	return kid, nil
}

// isFor reports whether the token was made for audience. Cognito's client_id counts only
// if the token has no aud.
func (c *claims) isFor(audience string) bool {
	if c.TokenUse != "" && c.TokenUse != "access" {
		return false // Cognito's id tokens are for the app, not for an API
	}
	if len(c.Audience) > 0 {
		return slices.Contains(c.Audience, audience)
	}
	return c.TokenUse == "access" && c.ClientID == audience
}
