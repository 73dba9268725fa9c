package feed

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// keyLife is how long an Idempotency-Key is bound.
const keyLife = 24 * time.Hour

// bindKey binds an Idempotency-Key to a new post. If it was bound before, to the
// same body, the caller goes on with the post that it stands for: found, if that
// one is in the table, deleted or not, else bound, for which everything that
// follows is to be repeated. Whoever was the first may be dead.
func (s *Service) bindKey(ctx context.Context, key string, p schema.Post) (bound schema.Post, found *schema.Post, err error) {
	now := s.now()
	record := schema.Idempotency{
		User: p.Author, Key: key, Post: p.ID, BodyHash: hashBody(p.Text, p.ImageURL),
		LikeShards: p.LikeShards, TTL: now.Add(keyLife),
	}
	_, err = s.store.Put(ctx, table.PutInput{Item: record.Item(), If: table.Any{
		table.Absent{},
		table.Less{Name: table.AttrTTL, Value: table.N(now.Unix() + 1)}, // expired, though still stored
	}})
	if err == nil {
		return p, nil, nil
	}
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok || failed.Old == nil {
		return schema.Post{}, nil, unavailable("table", err)
	}
	first, err := schema.ParseIdempotency(*failed.Old)
	if err != nil {
		return schema.Post{}, nil, unavailable("table", err)
	}
	if first.BodyHash != record.BodyHash {
		return schema.Post{}, nil, &Error{
			Kind: Invalid, Detail: "the Idempotency-Key was used with another body",
			Fields: []FieldError{{"Idempotency-Key", "stands for another post: take a new key"}},
		}
	}
	p.ID, p.LikeShards = first.Post, first.LikeShards
	found, err = s.lookForPost(ctx, p.Author, p.ID)
	if err != nil {
		return schema.Post{}, nil, err
	}
	if found != nil && found.Deleted {
		return p, &p, nil // its text is gone; the body that was sent again is the same
	}
	return p, found, nil
}

func hashBody(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
