package embedded

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"fanfare/internal/table"
)

// recent is a cache of decoded items and of first pages of partitions. It is bounded in bytes,
// and keeps the most recent reads.
//
// An entry is valid as long as its slot has no newer commit, because a commit is noted in its
// slots before it becomes visible (commits.apply). So a write need not update an entry, and no
// reader gets an outdated entry. The commits that an entry depends on are durable, so no reader
// has to wait.
type recent struct {
	shards [recentShards]recentShard
	used   atomic.Int64
}

const (
	recentShards = 16
	// mostRecentPage is the billed size of the largest page that the cache keeps.
	mostRecentPage = 16 << 10
)

// recentShard is a part of recent that has its own lock.
type recentShard struct {
	mu   sync.Mutex
	kept *simplelru.LRU[recentKey, recentRead]
	// used and most are numbers of bytes.
	used, most int64
}

// recentKey names an item, or the first page of a partition, which has no sort key.
type recentKey struct {
	table.Key
	pageSize   int
	descending bool
}

// recentRead is the result of a read.
type recentRead struct {
	items []table.Item // one item for the read of an item
	// size is the billed size of the read.
	size int
	// seq is the number of the slot's last commit at the time of the read.
	seq uint64
	// low is the lower bound of a page. If more pages follow, next is the sort key after the page: a
	// descending page is the same for each lower bound up to next.
	low, next string
	more      bool
}

func newRecent(most int64) *recent {
	r := &recent{}
	for i := range r.shards {
		s := &r.shards[i]
		s.most = most / recentShards
		// The LRU has a bound in entries, but the cache needs a bound in bytes. Each entry has
		// more than 256 bytes.
		kept, err := simplelru.NewLRU(max(1, int(s.most/256)), func(key recentKey, it recentRead) { s.used -= bytesOf(key, it) })
		if err != nil {
			panic(err) // not reached: only a size below 1 is an error
		}
		s.kept = kept
	}
	return r
}

// bytesOf returns the memory of an entry: its key, its items, the entry itself, and its share of the map.
func bytesOf(key recentKey, read recentRead) int64 {
	n := len(key.PK) + len(key.SK) + len(read.low) + len(read.next) + 384 + read.size
	for _, it := range read.items {
		n += int(unsafe.Sizeof(it)) + len(it.Attrs)*int(unsafe.Sizeof(table.Attr{}))
	}
	return int64(n)
}

func (r *recent) shard(hash uint64) *recentShard { return &r.shards[hash>>32%recentShards] }

// get returns the kept read of a key, if no commit of the slot came after the read: seq is the
// slot's last commit.
func (r *recent) get(key recentKey, hash, seq uint64) (recentRead, bool) {
	s := r.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	it, ok := s.kept.Get(key)
	return it, ok && it.seq == seq
}

// put keeps a read in the shard that its key's hash chooses.
func (r *recent) put(key recentKey, hash uint64, read recentRead) {
	s := r.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.used
	s.kept.Remove(key)
	s.kept.Add(key, read)
	for s.used += bytesOf(key, read); s.used > s.most; {
		s.kept.RemoveOldest()
	}
	r.used.Add(s.used - before)
}

// recall reads an item for an answer: from memory if possible, and otherwise from Pebble. settled reports
// whether the answer is durable. If the answer is not durable, the caller has to wait for the slot.
func (s *Store) recall(key table.Key, project []string) (_ *table.Item, size int, slot uint32, settled bool, err error) {
	hash, partition := s.hash.of(key)
	slot = slotOf(partition)
	seq, settled := s.commits.last(slot)
	if settled {
		if read, ok := s.recent.get(recentKey{Key: key}, hash, seq); ok {
			return projected(&read.items[0], project), read.size, slot, true, nil
		}
	}
	it, size, err := s.read(key)
	if err != nil {
		return nil, 0, slot, false, err
	}
	// The read may or may not have seen a commit that was made during the read.
	if now, _ := s.commits.last(slot); !settled || now != seq {
		return projected(it, project), size, slot, false, nil
	}
	if it != nil { // absent items are not kept: mostly a write follows, and filters make their reads cheap
		s.recent.put(recentKey{Key: key}, hash, recentRead{items: []table.Item{*it}, size: size, seq: seq})
	}
	return projected(it, project), size, slot, true, nil
}

// recallPage reads a page. If the page is the first page of its partition and is in the cache,
// recallPage returns the page from memory.
func (s *Store) recallPage(p *pageReader, partition uint64, first bool, lower, upper []byte) (settled bool, err error) {
	seq, settled := s.commits.last(slotOf(partition))
	key := recentKey{Key: table.Key{PK: p.q.PK}, pageSize: p.q.PageSize, descending: p.q.Descending}
	first = first && !p.q.Index && !p.q.EndsOnly && p.q.Project == nil && p.q.High == "" && p.q.After == ""
	if first && settled {
		if read, ok := s.recent.get(key, partition, seq); ok && (p.q.Low == read.low || read.next != "" && p.q.Low <= read.next) {
			p.page.Items, p.page.More, p.size = ownItems(read.items), read.more, read.size
			if read.more {
				p.last = appendKey(nil, read.items[len(read.items)-1].Key)
			}
			return true, nil
		}
	}
	if err := p.read(lower, upper); err != nil {
		return false, err
	}
	if now, _ := s.commits.last(slotOf(partition)); !settled || now != seq {
		return false, nil
	}
	if first && p.size <= mostRecentPage {
		s.recent.put(key, partition, recentRead{ownItems(p.page.Items), p.size, seq, p.q.Low, p.next, p.page.More})
	}
	return true, nil
}

// ownItems returns a copy of items that another owner may keep.
func ownItems(items []table.Item) []table.Item {
	n := 0
	for i := range items {
		n += len(items[i].Attrs)
	}
	own, attrs := make([]table.Item, len(items)), make([]table.Attr, 0, n)
	for i, it := range items {
		from := len(attrs)
		attrs = append(attrs, it.Attrs...)
		own[i] = table.Item{Key: it.Key, Attrs: attrs[from:len(attrs):len(attrs)]}
	}
	return own
}

// projected returns a copy of an item for the caller, with the attributes in project. If
// project is nil, the copy has all attributes.
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
