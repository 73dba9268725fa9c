package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"fanfare/internal/id"
)

// MinSecretBytes is the minimum length of a secret for dev tokens: the length of the hash.
const MinSecretBytes = 32

// DefaultTokenTTL and MaxTokenTTL are the default and the maximum lifetime of a dev token.
const (
	DefaultTokenTTL = 24 * time.Hour
	MaxTokenTTL     = 30 * 24 * time.Hour
)

const devIssuer = "fanfare-dev"

// Dev issues and checks tokens that are signed with one secret (HS256). Dev is for
// development, because anybody with access can be any user.
type Dev struct {
	*signed
	secret []byte
	now    func() time.Time
}

// NewDev returns a Dev on the clock now.
func NewDev(secret []byte, now func() time.Time) (*Dev, error) {
	if len(secret) < MinSecretBytes {
		return nil, fmt.Errorf("dev secret has %d bytes, it needs at least %d", len(secret), MinSecretBytes)
	}
	return &Dev{newSigned([]string{"HS256"}, devIssuer, names{"sub", Scopes{}.OrDefault()}, now), secret, now}, nil
}

// Issue returns a token for user that is valid for ttl. The scopes of the token may be
// ActScope and DeleteScope.
func (d *Dev) Issue(user string, ttl time.Duration, scopes ...string) (token string, expiresAt time.Time, err error) {
	switch service := slices.Contains(scopes, ActScope); {
	case service && (user == "" || len(user) > maxService):
		return "", time.Time{}, fmt.Errorf("the name of a service has 1 to %d bytes", maxService)
	case !service && !id.ValidUser(user):
		return "", time.Time{}, fmt.Errorf("%q is not a user id: use %s", user, id.UserGrammar)
	}
	if ttl < time.Second || ttl > MaxTokenTTL {
		return "", time.Time{}, fmt.Errorf("a token is valid for 1s to %s, not %s", MaxTokenTTL, ttl)
	}
	now := d.now().UTC().Truncate(time.Second)
	expiresAt = now.Add(ttl)
	token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, struct {
		jwt.RegisteredClaims

		Scope string `json:"scope,omitempty"`
	}{jwt.RegisteredClaims{
		Issuer: devIssuer, Subject: user,
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expiresAt),
	}, strings.Join(scopes, " ")}).SignedString(d.secret)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign a dev token: %w", err)
	}
	return token, expiresAt, nil
}

// Verify implements Verifier.
func (d *Dev) Verify(_ context.Context, token string) (Identity, error) {
	c, err := d.verify(token,
		func(map[string]any) (string, error) { return "", nil },
		func(string, string) (key, id any, err error) { return d.secret, nil, nil })
	if err != nil {
		return Identity{}, err
	}
	return c.identity()
}
