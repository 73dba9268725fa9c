package doorkeeper_test

import (
	"hash/maphash"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/doorkeeper"
)

// A crowd that fits in is known when it comes again, and few are known before, also if all
// their hashes have some bits in common, as those of one shard have.
func TestASecondSightIsKnown(t *testing.T) {
	const keys = 4096
	for name, in := range map[string]func(hash uint64) bool{
		"all":                    func(uint64) bool { return true },
		"a shard by upper bits":  func(hash uint64) bool { return hash>>32%16 == 3 },
		"a shard by the lowest":  func(hash uint64) bool { return hash%16 == 3 },
		"a shard by the highest": func(hash uint64) bool { return hash>>60 == 3 },
	} {
		t.Run(name, func(t *testing.T) {
			d := doorkeeper.New(keys)
			seed := maphash.MakeSeed()
			var known [2]int
			for round := range known {
				for key, n := 0, 1; n < keys; key++ { // one more, and it forgets them
					hash := maphash.Comparable(seed, key)
					if !in(hash) {
						continue
					}
					n++
					if d.Knows(hash) {
						known[round]++
					}
				}
			}
			assert.Less(t, known[0], keys/20, "known at first sight")
			assert.Equal(t, keys-1, known[1], "known at second sight")
		})
	}
}

func TestAFullDoorkeeperForgets(t *testing.T) {
	d := doorkeeper.New(8)
	const key = 7<<32 | 3
	assert.False(t, d.Knows(key))
	assert.True(t, d.Knows(key))
	seed := maphash.MakeSeed()
	for other := 0; d.Knows(key); other++ {
		if other > 1000 {
			t.Fatal("it knows the key among a thousand others")
		}
		d.Knows(maphash.Comparable(seed, other))
	}
}
