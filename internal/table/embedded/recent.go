package embedded

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"fanfare/internal/table"
)

// recent holds the items that were read last, decoded, within a number of bytes. An absent
// item is nil.
//
// An entry is right as long as its slot has no newer commit, because a commit is noted in
// its slots before it shows (commits.apply). So a write does nothing for an entry and no
// reader sees an old one. An entry's commit is durable, so nobody waits for it.
type recent struct {
	shards [recentShards]recentShard
	used   atomic.Int64
}

const recentShards = 16

// recentShard is a part of recent with a lock of its own.
type recentShard struct {
	mu   sync.Mutex
	kept *simplelru.LRU[table.Key, recentItem]
	// used and most are bytes.
	used, most int64
}

type recentItem struct {
	item *table.Item
	// size is the billed size, 0 if the item is absent.
	size int
	// seq is the last commit of the slot when the item was read.
	seq uint64
}

func newRecent(most int64) *recent {
	r := &recent{}
	for i := range r.shards {
		s := &r.shards[i]
		s.most = most / recentShards
		// The bound is in bytes; the least entry has more than 128.
		kept, err := simplelru.NewLRU(max(1, int(s.most/128)), func(key table.Key, it recentItem) { s.used -= bytesOf(key, it) })
		if err != nil {
			panic(err) // unreachable: it refuses a size below 1
		}
		s.kept = kept
	}
	return r
}

// bytesOf is the memory that an entry takes: its key, its attributes, the entry itself, and
// its share of the map.
func bytesOf(key table.Key, it recentItem) int64 {
	n := 2*(len(key.PK)+len(key.SK)) + 256
	if it.item != nil {
		n += it.size + len(it.item.Attrs)*int(unsafe.Sizeof(table.Attr{}))
	}
	return int64(n)
}

func (r *recent) shard(hash uint64) *recentShard { return &r.shards[hash>>32%recentShards] }

// get returns the item of a key, if it was read after the commit seq of its slot.
func (r *recent) get(key table.Key, hash, seq uint64) (recentItem, bool) {
	s := r.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	it, ok := s.kept.Get(key)
	return it, ok && it.seq == seq
}

func (r *recent) put(key table.Key, hash uint64, it recentItem) {
	s := r.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.used
	s.kept.Remove(key)
	s.kept.Add(key, it)
	for s.used += bytesOf(key, it); s.used > s.most; {
		s.kept.RemoveOldest()
	}
	r.used.Add(s.used - before)
}

// recall is read for an answer: from memory if it can, else from Pebble. settled reports
// whether the answer is durable; if not, the caller waits for the slot.
func (s *Store) recall(buf *keyBuffer, key table.Key, project []string) (_ *table.Item, size int, slot uint32, settled bool, err error) {
	hash, partition := s.hash.of(key)
	slot = slotOf(partition)
	seq, settled := s.commits.last(slot)
	if settled {
		if it, ok := s.recent.get(key, hash, seq); ok {
			return projected(it.item, project), it.size, slot, true, nil
		}
	}
	it, size, err := s.read(buf, key)
	if err != nil {
		return nil, 0, slot, false, err
	}
	// A commit that came meanwhile may have shown or not.
	if now, _ := s.commits.last(slot); settled && now == seq {
		s.recent.put(key, hash, recentItem{it, size, seq})
	} else {
		settled = false
	}
	return projected(it, project), size, slot, settled, nil
}

// projected returns an item of the caller's own, with the attributes that project names, nil
// for all.
func projected(it *table.Item, project []string) *table.Item {
	if it == nil {
		return nil
	}
	if project == nil {
		return &table.Item{Key: it.Key, Attrs: slices.Clone(it.Attrs)}
	}
	part := &table.Item{Key: it.Key, Attrs: make([]table.Attr, 0, len(project))}
	for _, a := range it.Attrs {
		if slices.Contains(project, a.Name) {
			part.Attrs = append(part.Attrs, a)
		}
	}
	return part
}
