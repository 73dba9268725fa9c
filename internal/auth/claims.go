package auth

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"fanfare/internal/id"
)

// ActScope is the scope that lets a token act for any user, unless an issuer's Rules name
// another one.
const ActScope = "fanfare:act"

// maxService is the length of the longest sub of a service. OpenID Connect allows no more.
const maxService = 255

// names are the claims and the scope that are read besides the registered claims.
type names struct{ user, scope string }

// claims are the claims of a token. names must be set before they are decoded.
type claims struct {
	jwt.RegisteredClaims
	ClientID string `json:"client_id"`
	TokenUse string `json:"token_use"`

	names names
	// user is the claim of that name, "" if it is absent or no string.
	user string
	// acts reports whether the scope is among those of the token.
	acts bool
}

// UnmarshalJSON implements json.Unmarshaler. The names of user and scopes are matched
// exactly, since encoding/json would take "SCOPE" for scope, too.
func (c *claims) UnmarshalJSON(raw []byte) error {
	type plain claims // without this method
	if err := json.Unmarshal(raw, (*plain)(c)); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	if err := json.Unmarshal(all[c.names.user], &c.user); err != nil {
		c.user = "" // absent, or no string: identity says so
	}
	c.acts = slices.Contains(scopes(all["scope"]), c.names.scope) || slices.Contains(scopes(all["scp"]), c.names.scope)
	return nil
}

// scopes reads a claim of scopes: one string with spaces between them (RFC 9068), or an
// array. A claim of another form grants nothing.
func scopes(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return strings.Split(text, " ")
}

// UserFault returns the fault of a user id, "" if it has none.
func UserFault(user string) string {
	if id.ValidUser(user) {
		return ""
	}
	return "is not a user id (" + id.UserGrammar + ")"
}

// identity returns the caller of a token that was verified.
func (c *claims) identity() (Identity, error) {
	valid := id.ValidUser(c.user)
	switch {
	case !c.acts && !valid:
		return Identity{}, invalid("its %s is not a user id (%s)", c.names.user, id.UserGrammar)
	case !c.acts:
		return Identity{User: c.user}, nil
	case c.Subject == "" || len(c.Subject) > maxService:
		return Identity{}, invalid("a token of a service needs a sub of 1 to %d bytes", maxService)
	case !valid:
		return Identity{Service: c.Subject}, nil
	default:
		return Identity{User: c.user, Service: c.Subject}, nil
	}
}
