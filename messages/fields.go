package messages

import (
	"fmt"

	"fanfare/internal/id"
)

func postID(s string) error { return ulid("post_id", s) }

func ulid(field, s string) error {
	if !id.Valid(s) {
		return fmt.Errorf("%s is not a ULID", field)
	}
	return nil
}

func userID(field, s string) error {
	if !id.ValidUser(s) {
		return fmt.Errorf("%s is not a user id", field)
	}
	return nil
}

// keyBound accepts "" for an open end.
func keyBound(field, s string) error {
	if s == "" {
		return nil
	}
	return userID(field, s)
}

func shards(n int) error {
	if n < 0 || n > MaxLikeShards {
		return fmt.Errorf("like_shards is not between 0 and %d", MaxLikeShards)
	}
	return nil
}

// MaxLikeShards is the largest number of partitions of a like list: their names
// have two digits.
const MaxLikeShards = 100
