package feed

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// authorsBytes bounds the memory for known authors, and authorBytes is that of one
	// without the text of its ids.
	authorsBytes, authorBytes = 4 << 20, 320
)

// Authors remembers the authors of new posts: that they have a profile, until
// it is removed, the highest id of their posts, and for a minute their number of like shards. It
// is right only in the one process that writes the table, and all Services there share it.
// It saves a post the reads that its own write made invalid in the table's memory.
type Authors struct {
	mu    sync.Mutex
	kept  *simplelru.LRU[string, knownAuthor]
	bytes int
}

// knownAuthor is an author. newest is the highest id of its posts, living or deleted, at
// least as of the last read. shards is 0 before that read.
type knownAuthor struct {
	newest string
	shards int
	read   time.Time
}

// NewAuthors returns an empty memory.
func NewAuthors() *Authors {
	a := &Authors{}
	var err error
	a.kept, err = simplelru.NewLRU(authorsBytes/authorBytes, func(author string, k knownAuthor) { a.bytes -= sizeOfAuthor(author, k) })
	if err != nil {
		panic(err) // unreachable: it refuses a size below 1, and this one is a constant
	}
	return a
}

func sizeOfAuthor(author string, k knownAuthor) int { return authorBytes + len(author) + len(k.newest) }

// Bytes returns the size of the memory.
func (a *Authors) Bytes() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(a.bytes)
}

// known returns the highest id of an author's posts and the number of like shards of a new
// one. It reports false if they have to be read.
func (a *Authors) known(author string, now time.Time) (newest string, shards int, ok bool) {
	if a == nil {
		return "", 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k, found := a.kept.Get(author)
	if !found || k.shards == 0 || k.read.After(now) || now.Sub(k.read) >= keptAuthors { // after now: the clock was set back
		return "", 0, false
	}
	return k.newest, k.shards, true
}

// forget drops an author whose profile is being removed.
func (a *Authors) forget(author string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept.Remove(author)
}

// note keeps the id of an author's post if it is the highest one, and the number of like
// shards that was read at a time, unless it is 0.
func (a *Authors) note(author, post string, shards int, read time.Time) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k, _ := a.kept.Peek(author) // an unknown author begins with nothing
	k.newest = max(k.newest, post)
	if shards > 0 {
		k.shards, k.read = shards, read
	}
	a.kept.Remove(author)
	a.kept.Add(author, k)
	for a.bytes += sizeOfAuthor(author, k); a.bytes > authorsBytes; {
		a.kept.RemoveOldest()
	}
}
