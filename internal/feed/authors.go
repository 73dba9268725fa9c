package feed

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"fanfare/internal/memory"
	"fanfare/internal/schema"
)

const (
	// authorsBytes bounds the memory for known authors. authorBytes is the size of one
	// author, without the text of the ids.
	authorsBytes, authorBytes = 4 << 20, 320
)

// Authors remembers the authors of new posts: the fact that an author has a profile (until the profile
// is removed), the highest id of the author's posts, and for access.Config.KeptNames the stored items of the author. The
// memory is correct only in the one process that writes the table, where all Services share one
// Authors. The memory saves the reads before each post, because the author's own writes keep those
// items out of the table's cache.
type Authors struct {
	mu    sync.Mutex
	kept  *simplelru.LRU[string, knownAuthor]
	lives memory.Generations
	bytes int
}

// knownAuthor is an author in the memory. newest is the highest id of the author's posts, living or
// deleted, as of the last read or later.
type knownAuthor struct {
	newest string
	read   authorRead
}

// authorRead is the part of an author that a new post needs: the number of like shards (0 before the
// first read), the byline, and an id above all ids of the author's former lives. A worker later
// compares the byline with the profile.
type authorRead struct {
	at time.Time
	// generation is the author's generation in the memory before the read.
	generation uint64

	shards int
	byline schema.Byline
	after  string
	// followers is the number of followers that receive a pushed post.
	followers int64
}

// NewAuthors returns an empty memory.
func NewAuthors() *Authors {
	a := &Authors{}
	var err error
	a.kept, err = simplelru.NewLRU(authorsBytes/authorBytes, func(author string, k knownAuthor) { a.bytes -= sizeOfAuthor(author, k) })
	if err != nil {
		panic(err) // unreachable: the only error is for a size below 1, and this size is a constant
	}
	return a
}

func sizeOfAuthor(author string, k knownAuthor) int {
	return authorBytes + len(author) + len(k.newest) + len(k.read.after) + len(k.read.byline.Name) + len(k.read.byline.ImageURL)
}

// Bytes returns the size of the memory.
func (a *Authors) Bytes() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(a.bytes)
}

// known returns the highest id of an author's posts, and the kept items of the author. known returns
// false if the items have to be read, because they were read longer than kept ago.
func (a *Authors) known(author string, now time.Time, kept time.Duration) (newest string, read authorRead, ok bool) {
	if a == nil {
		return "", authorRead{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k, found := a.kept.Get(author)
	if !found || k.read.shards == 0 || k.read.at.After(now) || now.Sub(k.read.at) >= kept { // after now: the clock was set back
		return "", authorRead{}, false
	}
	return k.newest, k.read, true
}

// generation returns the generation of an author before a read of the author's items.
func (a *Authors) generation(author string) uint64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lives.Of(author)
}

// forget removes from the memory an author whose profile was changed or removed, or may have been. The
// caller has made the change, so no later read returns the former profile.
func (a *Authors) forget(author string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lives.Raise(author)
	a.kept.Remove(author)
}

// note keeps the id of an author's post, unless a kept id is higher. note also keeps read, the items
// of the author, unless read is zero or the author was forgotten after the read began.
func (a *Authors) note(author, post string, read authorRead) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k, _ := a.kept.Peek(author) // an unknown author begins with the zero value
	k.newest = max(k.newest, post)
	if read.shards > 0 && read.generation == a.lives.Of(author) {
		k.read = read
	}
	a.kept.Remove(author)
	a.kept.Add(author, k)
	for a.bytes += sizeOfAuthor(author, k); a.bytes > authorsBytes; {
		a.kept.RemoveOldest()
	}
}
