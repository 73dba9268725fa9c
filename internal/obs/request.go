package obs

import (
	"context"
	"crypto/rand"
)

type requestKey struct{}

// WithRequestID returns ctx with the id of its request.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the id of ctx's request, "" if ctx has none.
func RequestID(ctx context.Context) string {
	id, ok := ctx.Value(requestKey{}).(string)
	if !ok {
		return ""
	}
	return id
}

// NewRequestID returns a new, unique id.
func NewRequestID() string { return rand.Text() }

// ValidRequestID reports whether a client's id is allowed in logs and events: an id has 1
// to 64 characters of A-Z a-z 0-9 . _ -.
func ValidRequestID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
