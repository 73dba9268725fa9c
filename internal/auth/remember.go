package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"fanfare/internal/strictjson"
)

const (
	// rememberedBytes is the maximum memory for tokens with a good signature.
	rememberedBytes = 8 << 20
	// rememberedToken is an upper bound of the memory for one token, without the token's text.
	rememberedToken = 512
)

// signed checks tokens, and remembers tokens with a good signature, because a client sends the
// same token with each request. signed remembers only the result of the signature's check. It
// checks the times of a token each time, and it looks up the token's key each time, because the
// issuer may have withdrawn the key. It keeps a token's hash and claims, but never the token.
type signed struct {
	names     names
	parser    *jwt.Parser
	validator *jwt.Validator

	mu   sync.Mutex
	kept *simplelru.LRU[[sha256.Size]byte, *remembered]
	used int64
}

// remembered has the result of a token's check. All requests with the token share it, so nothing
// changes a remembered after verify has returned its claims.
type remembered struct {
	claims   claims
	kid, alg string
	// key identifies the key that verified the signature.
	key   any
	bytes int64
}

// newSigned returns a signed that accepts only tokens that expire, and only the given
// algorithms. So a token with alg=none is refused.
func newSigned(algorithms []string, issuer string, names names, now func() time.Time) *signed {
	options := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms),
		jwt.WithIssuer(issuer),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(now),
	}
	s := &signed{names: names, parser: jwt.NewParser(options...), validator: jwt.NewValidator(options...)}
	var err error
	s.kept, err = simplelru.NewLRU(rememberedBytes/rememberedToken, func(_ [sha256.Size]byte, r *remembered) { s.used -= r.bytes })
	if err != nil {
		panic(err) // unreachable: NewLRU fails only for a size below 1, and this size is a constant
	}
	return s
}

// verify returns the claims of a token. keyOf returns the key for a key id and an
// algorithm, and a comparable value that identifies the key. header returns the key id, and
// checks all other members of the token's header.
func (s *signed) verify(token string, header func(map[string]any) (kid string, err error), keyOf func(kid, alg string) (key, id any, err error)) (*claims, error) {
	sum := sha256.Sum256([]byte(token))
	if known, ok := s.recall(sum); ok {
		if _, id, err := keyOf(known.kid, known.alg); err == nil && id == known.key {
			if err := s.validator.Validate(&known.claims); err != nil {
				return nil, refusal(err)
			}
			return &known.claims, nil
		}
	}
	if !strictHeader(token) {
		return nil, invalid("the token is not a JWT")
	}
	seen := &remembered{bytes: int64(len(token) + rememberedToken)}
	seen.claims.names = s.names
	_, err := s.parser.ParseWithClaims(token, &seen.claims, func(t *jwt.Token) (key any, err error) {
		if seen.kid, err = header(t.Header); err != nil {
			return nil, err
		}
		seen.alg = t.Method.Alg()
		key, seen.key, err = keyOf(seen.kid, seen.alg)
		return key, err
	})
	if err != nil {
		return nil, refusal(err)
	}
	s.keep(sum, seen)
	return &seen.claims, nil
}

// strictHeader reports whether the header of a token is an object that all readers understand
// in the same way. If a header has two members with the same name, the library's parser takes
// the last member (RFC 7515, section 4, allows this).
func strictHeader(token string) bool {
	encoded, _, _ := strings.Cut(token, ".")
	header, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	_, err = strictjson.Members(header)
	return err == nil
}

func (s *signed) recall(sum [sha256.Size]byte) (*remembered, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.Get(sum)
}

func (s *signed) keep(sum [sha256.Size]byte, r *remembered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Remove(sum)
	s.kept.Add(sum, r)
	for s.used += r.bytes; s.used > rememberedBytes; {
		s.kept.RemoveOldest()
	}
}

// RememberedBytes returns the memory for tokens with a good signature, in bytes.
func (s *signed) RememberedBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
