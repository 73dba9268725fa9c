package memory

// Generations keeps a memory free of answers that are older than its last forget. A memory that forgets
// a key only removes the answer that it has now. A read that began before the forget may end after it,
// and then its answer is outdated. So a reader takes the generation of its key before the read, and the
// memory keeps the answer only if the generation has not changed.
//
// A caller that changes stored data forgets the key after the change, whatever the outcome: a read that
// begins before the change is then never kept. The lock of the memory guards its Generations. Keys share
// their generations, so the size is constant (I9); a forget of another key costs one more read at most.
// The zero value has the generations of an empty memory.
type Generations struct{ of [256]uint64 }

// slot has no random seed, because a seed of the simulation has to make the same reads each time. A caller who chooses keys
// of one slot gains nothing.
func (g *Generations) slot(key string) *uint64 {
	hash := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		hash = (hash ^ uint32(key[i])) * 16777619
	}
	return &g.of[hash%uint32(len(g.of))]
}

// Of returns the generation of a key. It is never 0.
func (g *Generations) Of(key string) uint64 { return *g.slot(key) + 1 }

// Raise begins the next generation of a key.
func (g *Generations) Raise(key string) { *g.slot(key)++ }
