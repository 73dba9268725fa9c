// Package doorkeeper tells the first sight of a key from the next one, so that a cache need
// not hold a key that nobody asks for again. It is the Bloom filter in front of TinyLFU
// (Einziger, Friedman and Manes, 2017, arXiv:1512.00727). It must never grow, and its answer
// must never decide more than the admission to a cache: it forgets all keys now and then, and
// takes up to one key in twenty for one that it has seen.
package doorkeeper

// bitsOfKey is the number of bits for a key. With two of them set for each key, one key in
// twenty is taken for another when the filter is full, and fewer before.
const bitsOfKey = 8

// Doorkeeper remembers keys until it has seen as many new ones as it has room for. It has no
// lock of its own.
type Doorkeeper struct {
	words []uint64
	// keys is the room, left what of it is free.
	keys, left int
}

// New returns a Doorkeeper with room for keys, which is 8 at least, in a byte each.
func New(keys int) *Doorkeeper {
	return &Doorkeeper{words: make([]uint64, keys*bitsOfKey/64), keys: keys, left: keys}
}

// Knows reports whether the key of this hash came before, and remembers it. The hashes may
// have some bits in common: each product depends on all bits below its own.
func (d *Doorkeeper) Knows(hash uint64) bool {
	first := d.set(uint32(hash * 0x9e3779b97f4a7c15 >> 32))
	second := d.set(uint32(hash * 0xc2b2ae3d27d4eb4f >> 32))
	if first && second {
		return true
	}
	if d.left--; d.left == 0 {
		clear(d.words)
		d.left = d.keys
	}
	return false
}

// set sets a bit, and reports whether it was set before.
func (d *Doorkeeper) set(n uint32) bool {
	word, bit := &d.words[n/64%uint32(len(d.words))], uint64(1)<<(n%64)
	before := *word&bit != 0
	*word |= bit
	return before
}
