package messages

import "fmt"

func atLeastOne(field string, n int64) error {
	if n < 1 {
		return fmt.Errorf("%s is %d, below 1", field, n)
	}
	return nil
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
