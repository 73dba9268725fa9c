package feed

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// keyLife is the time for which an Idempotency-Key stays bound to its post.
const keyLife = 24 * time.Hour

// draft is a post before its creation. after is an id above all ids of the author's former lives.
type draft struct {
	post  schema.Post
	after string
	// later is the units of the work that follows the answer.
	later int64
	use   use
	// unquotable is the refusal of a quote, which a bound key does not get.
	unquotable error
}

// bindKey binds an Idempotency-Key to the post of a draft. If an earlier call bound the key with the
// same body, bindKey returns the post of that call: as found if the table has the post, deleted or
// not, and otherwise as bound. The caller has to publish and write a bound post, because the earlier
// call may have crashed before the publish or the write. A post of a former life (its id is not above
// after) is being removed, so bindKey binds the key again. If refused is not nil, bindKey binds no key
// and returns refused, unless the key is already bound.
func (s *Service) bindKey(ctx context.Context, key string, d draft, refused error) (bound schema.Post, found *schema.Post, err error) {
	now, p := s.access.Now(), d.post
	hash, err := hashBody(p.Content, p.QuoteOf)
	if err != nil {
		return schema.Post{}, nil, fmt.Errorf("hash the body of a post: %w", err)
	}
	record := schema.Idempotency{
		User: p.Author, Key: key, Post: p.ID, BodyHash: hash,
		LikeShards: p.LikeShards, TTL: now.Add(keyLife),
	}
	free := table.Any{
		table.Absent{},
		table.Less{Name: table.AttrTTL, Value: table.N(s.access.Clock.Expired(now).Unix() + 1)}, // expired, but not removed yet
	}
	if d.after != "" {
		free = append(free, table.Less{Name: schema.AttrKeyPost, Value: table.S(d.after)})
	}
	var old *table.Item
	if refused != nil {
		old, err = s.access.Get(ctx, record.Item().Key, true)
		if err == nil && (old == nil || old.Str(schema.AttrKeyPost) < d.after) {
			err = refused
		}
	} else if _, err = s.access.Store.Put(ctx, table.PutInput{Item: record.Item(), If: free}); err == nil {
		return p, nil, nil
	} else if failed, ok := errors.AsType[*table.ConditionError](err); ok && failed.Old != nil {
		old, err = failed.Old, nil
	}
	if err != nil {
		return schema.Post{}, nil, fault.Wrap("table", err)
	}
	earlier, err := schema.ParseIdempotency(*old)
	if err != nil {
		return schema.Post{}, nil, fault.Wrap("table", err)
	}
	if earlier.BodyHash != record.BodyHash {
		return schema.Post{}, nil, &fault.Error{
			Kind: fault.Invalid, Detail: "the Idempotency-Key was used with another body",
			Fields: []fault.FieldError{{Field: "Idempotency-Key", Detail: "belongs to another post: use a new key"}},
		}
	}
	p.ID, p.LikeShards = earlier.Post, earlier.LikeShards
	found, err = s.lookForPost(ctx, access.Author, p.Author, p.ID)
	if err != nil {
		return schema.Post{}, nil, err
	}
	if found != nil && found.Deleted {
		return p, &p, nil // the tombstone has no text, but the text of this body is the same
	}
	return p, found, nil
}

// hashBody returns a hash of all fields that the author wrote.
func hashBody(c Content, quoteOf string) (string, error) {
	c.ExpiresAt = c.ExpiresAt.Truncate(time.Second).UTC() // as the post keeps it
	text, err := json.Marshal(struct {
		Content
		QuoteOf string `json:"quote_of,omitempty"`
	}{c, quoteOf})
	hash := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(hash[:]), err
}
