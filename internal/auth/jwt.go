package auth

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// leeway is the accepted clock skew of an issuer or of another process.
const leeway = 30 * time.Second

// algorithms are the accepted algorithms of an issuer's tokens. All algorithms use a public
// key, so nobody can misuse the issuer's key as a secret (algorithm confusion).
var algorithms = []string{"RS256", "ES256", "PS256", "PS384", "PS512", "EdDSA"} //nolint:gochecknoglobals // a constant list

// Rules are the requirements on the tokens of an issuer.
type Rules struct {
	// Issuer is the expected iss. A token must name one of Audiences.
	Issuer    string
	Audiences []string
	// UserClaim is the name of the claim with the user id; "" is sub.
	UserClaim string
	Scopes    Scopes
}

// JWT checks the tokens of one issuer with the issuer's published keys.
//
// The documented example is Amazon Cognito. Its access tokens have no aud: they name the app client in
// client_id, and their token_use is access. Set the issuer to https://cognito-idp.REGION.amazonaws.com/POOL
// and the audience to the app client's id. The user id is sub.
type JWT struct {
	*signed
	audiences []string
	keys      *KeySet
}

// NewJWT returns a JWT on the clock now.
func NewJWT(rules Rules, keys *KeySet, now func() time.Time) *JWT {
	read := names{cmp.Or(rules.UserClaim, "sub"), rules.Scopes.OrDefault()}
	return &JWT{newSigned(algorithms, rules.Issuer, read, now), rules.Audiences, keys}
}

// Verify implements Verifier.
func (j *JWT) Verify(ctx context.Context, token string) (Identity, error) {
	c, err := j.verify(token, keyID, func(kid, alg string) (key, id any, err error) {
		found, err := j.keys.find(ctx, kid, alg)
		if err != nil {
			return nil, nil, err
		}
		var set jwt.VerificationKeySet
		for _, key := range found {
			set.Keys = append(set.Keys, key.key)
		}
		return set, found[0], nil // all keys with one id belong to the same set
	})
	if err != nil {
		return Identity{}, err
	}
	if !c.isFor(j.audiences) {
		return Identity{}, invalid("the token is for another audience")
	}
	return c.identity()
}

// keyID returns the key id of a token's header.
func keyID(header map[string]any) (string, error) {
	if _, critical := header["crit"]; critical { // RFC 7515, section 4.1.11: JWT supports no extension
		return "", invalid("the header demands an extension (crit)")
	}
	kid, ok := header["kid"].(string)
	if !ok || kid == "" {
		return "", invalid("the header names no key (kid)")
	}
	return kid, nil
}

// isFor reports whether the token was made for one of the audiences. The client_id of Cognito counts
// only if the token has no aud.
func (c *claims) isFor(audiences []string) bool {
	if c.TokenUse != "" && c.TokenUse != "access" {
		return false // id tokens of Cognito are for the app, not for an API
	}
	if len(c.Audience) > 0 {
		return slices.ContainsFunc(c.Audience, func(aud string) bool { return slices.Contains(audiences, aud) })
	}
	return c.TokenUse == "access" && slices.Contains(audiences, c.ClientID)
}
