// Package auth identifies callers: it turns a bearer token into a user id, or into a service
// that acts for users. Dev signs and checks its own tokens, for development. JWT checks the
// tokens of an issuer with the issuer's published keys. Site asks a program that embeds Fanfare.
//
// Package auth must never accept a token that is unsigned, expired, for another audience,
// or signed with an algorithm outside of the verifier's list (I10), and never log or return
// a token. It uses HTTP only to fetch keys, and does not depend on the feed.
package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Verifier checks tokens.
type Verifier interface {
	// Verify returns the caller that the token identifies. It returns an
	// *InvalidTokenError if it refuses the token, and an *UnavailableError if it cannot
	// check the token now.
	Verify(ctx context.Context, token string) (Identity, error)
}

// Identity is the caller that a token identifies.
type Identity struct {
	// User is the user of the token. User is "" only for a service whose token names no user.
	User string
	// Service is the sub of a token whose scope lets the service act for any user. For all
	// other tokens Service is "". Deletes reports whether another scope lets the service
	// delete the users for whom it acts. A token without a Service needs no scope to delete
	// its own user, and can delete no other user.
	Service string
	Deletes bool
	// Until is the first moment at which Verify refuses the token because of its age. It is zero for a caller without a
	// token.
	Until time.Time
}

// InvalidTokenError is the refusal of a token. Its Reason quotes no part of the token.
type InvalidTokenError struct{ Reason string }

func (e *InvalidTokenError) Error() string { return "invalid token: " + e.Reason }

// UnavailableError means that a token cannot be checked now, because the issuer's keys
// could not be fetched.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return "token cannot be checked: " + e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

func invalid(format string, args ...any) error {
	return &InvalidTokenError{fmt.Sprintf(format, args...)}
}

// refusal returns an error for a refused token. The error omits the parser's text, which may quote the token.
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
		{jwt.ErrTokenMalformed, "the token is not a JWT"},
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
		{jwt.ErrTokenUsedBeforeIssued, "the token was issued in the future"},
		{jwt.ErrTokenInvalidIssuer, "the token comes from another issuer"},
		{jwt.ErrTokenRequiredClaimMissing, "the token lacks a required claim"},
		{jwt.ErrTokenSignatureInvalid, "the signature or its algorithm is not acceptable"},
	} {
		if errors.Is(err, known.is) {
			return invalid("%s", known.reason)
		}
	}
	return invalid("the token cannot be verified")
}
