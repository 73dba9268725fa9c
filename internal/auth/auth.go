// Package auth tells who a caller is: it turns a bearer token into a user id. Dev
// signs and checks tokens of its own for development; JWT checks those of an
// issuer by its published keys.
//
// It never accepts a token that is unsigned, signed with another algorithm than
// the ones it names, expired or for another audience (I10), and it never logs or
// returns a token. It knows no HTTP beyond fetching keys, and no feed.
package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"fanfare/internal/id"
)

// Verifier checks tokens.
type Verifier interface {
	// Verify returns the user that the token speaks for. A token that is not
	// acceptable is an *InvalidTokenError; one that cannot be checked now is an
	// *UnavailableError.
	Verify(ctx context.Context, token string) (userID string, err error)
}

// InvalidTokenError is a token that is refused. Reason says why, without quoting
// anything of the token.
type InvalidTokenError struct{ Reason string }

func (e *InvalidTokenError) Error() string { return "invalid token: " + e.Reason }

// UnavailableError is a token that cannot be checked, because the issuer's keys
// cannot be had.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return "token cannot be checked: " + e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

func invalid(format string, args ...any) error {
	return &InvalidTokenError{fmt.Sprintf(format, args...)}
}

// refusal says in fixed words why a token was refused: the parser's own errors may
// quote what is in it.
func refusal(err error) error {
	if _, ok := errors.AsType[*UnavailableError](err); ok {
		return err
	}
	if refused, ok := errors.AsType[*InvalidTokenError](err); ok {
		return refused
	}
	for _, known := range []struct {
		is     error
		reason string
	}{
		{jwt.ErrTokenMalformed, "it is not a JWT"},
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
		{jwt.ErrTokenInvalidIssuer, "it is of another issuer"},
		{jwt.ErrTokenRequiredClaimMissing, "a required claim is missing"},
		{jwt.ErrTokenSignatureInvalid, "its signature or algorithm is not acceptable"},
	} {
		if errors.Is(err, known.is) {
			return invalid("%s", known.reason)
		}
	}
	return invalid("it cannot be verified")
}

// parser accepts the given algorithms only, which shuts out alg=none, and tokens
// that end.
func parser(algorithms []string, issuer string, now func() time.Time) *jwt.Parser {
	return jwt.NewParser(
		jwt.WithValidMethods(algorithms),
		jwt.WithIssuer(issuer),
		jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(now),
	)
}

// subject returns the user id that the claims name.
func subject(claims jwt.RegisteredClaims) (string, error) {
	if !id.ValidUser(claims.Subject) {
		return "", invalid("its sub is not a user id (1 to 64 of A-Z a-z 0-9 _ -)")
	}
	return claims.Subject, nil
}
