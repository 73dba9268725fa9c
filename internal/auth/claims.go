package auth

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"fanfare/internal/id"
	"fanfare/internal/strictjson"
)

// Scopes are the scopes that make a token the token of a service.
type Scopes struct {
	// Act lets a token act for any user; "" is ActScope.
	Act string
	// Delete lets a token with Act also delete its users; "" is DeleteScope. A deletion
	// cannot be undone, so Act alone is not enough.
	Delete string
}

// The default scopes.
const (
	ActScope    = "fanfare:act"
	DeleteScope = "fanfare:delete"
)

// OrDefault returns s with the default scopes in empty fields.
func (s Scopes) OrDefault() Scopes {
	return Scopes{cmp.Or(s.Act, ActScope), cmp.Or(s.Delete, DeleteScope)}
}

// maxService is the maximum length of the sub of a service. OpenID Connect allows no longer sub.
const maxService = 255

// names holds the name of the claim with the user id, and the names of the scopes.
type names struct {
	user   string
	scopes Scopes
}

// claims are the claims of a token. names must be set before the claims are decoded.
type claims struct {
	jwt.RegisteredClaims
	ClientID string         `json:"client_id"`
	TokenUse string         `json:"token_use"`
	Scope    jsontext.Value `json:"scope"`
	SCP      jsontext.Value `json:"scp"`

	names names
	// user is the value of the claim names.user, "" if the claim is absent or not a string.
	user string
	// acts and deletes report whether the token has the scopes names.scopes.Act and names.scopes.Delete.
	acts, deletes bool
}

// UnmarshalJSON implements json.Unmarshaler. Claims are matched by their exact names:
// encoding/json would accept "SCOPE" for scope, too. A repeated claim is refused (RFC
// 7519, 4).
func (c *claims) UnmarshalJSON(raw []byte) error {
	type plain claims // without this method
	if err := strictjson.Unmarshal(raw, (*plain)(c)); err != nil {
		return err
	}
	if c.names.user == "sub" {
		c.user = c.Subject
	} else {
		var all map[string]jsontext.Value
		if err := strictjson.Unmarshal(raw, &all); err != nil {
			return err
		}
		if err := strictjson.Unmarshal(all[c.names.user], &c.user); err != nil {
			c.user = "" // the claim is absent or not a string, so identity refuses the token
		}
	}
	granted := append(scopes(c.Scope), scopes(c.SCP)...)
	c.acts, c.deletes = slices.Contains(granted, c.names.scopes.Act), slices.Contains(granted, c.names.scopes.Delete)
	c.Scope, c.SCP = nil, nil // the claims of scopes are large, and a remembered token keeps its claims
	return nil
}

// scopes reads a claim of scopes: one string with spaces between them (RFC 9068), or an
// array. A claim of another form grants nothing.
func scopes(raw jsontext.Value) []string {
	switch raw.Kind() {
	case '[':
		var list []string
		if strictjson.Unmarshal(raw, &list) != nil {
			return nil
		}
		return list
	case '"':
		var text string
		if strictjson.Unmarshal(raw, &text) != nil {
			return nil
		}
		return strings.Split(text, " ")
	default: // an absent claim, or a claim of another type
		return nil
	}
}

// UserFault returns the fault of a user id, "" if there is no fault.
func UserFault(user string) string {
	if id.ValidUser(user) {
		return ""
	}
	return "is not a user id (" + id.UserGrammar + ")"
}

// identity returns the caller of a verified token.
func (c *claims) identity() (Identity, error) {
	valid := id.ValidUser(c.user)
	until := c.ExpiresAt.Add(leeway)
	switch {
	case !c.acts && !valid:
		return Identity{}, invalid("its %s is not a user id (%s)", c.names.user, id.UserGrammar)
	case !c.acts:
		return Identity{User: c.user, Until: until}, nil
	case c.Subject == "" || len(c.Subject) > maxService:
		return Identity{}, invalid("a token of a service needs a sub of 1 to %d bytes", maxService)
	case !valid:
		return Identity{Service: c.Subject, Deletes: c.deletes, Until: until}, nil
	default:
		return Identity{User: c.user, Service: c.Subject, Deletes: c.deletes, Until: until}, nil
	}
}
