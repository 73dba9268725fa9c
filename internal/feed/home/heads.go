package home

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/memory"
	"fanfare/internal/page"
	"fanfare/internal/panics"
)

const (
	// defaultHeadBytes is the default bound of the memory for heads in a process.
	defaultHeadBytes = 16 << 20
	// headBytes is the size of a head without its posts. refBytes is the size of one post of a head.
	headBytes, refBytes = 512, 96
)

// heads shares the newest posts of pulled authors among the first pages of homes, because all
// followers of an author read the same list. One read of a head runs at a time. A post of a head may
// have been deleted after the read, so homes read the posts themselves afterwards (I2).
type heads struct {
	read     func(ctx context.Context, author, oldest string, size int) (page.Stretch[access.Ref], error)
	now      func() time.Time
	age      time.Duration
	maxBytes int
	held     func(bytes int)

	mu    sync.Mutex
	kept  *simplelru.LRU[headKey, *head]
	bytes int
}

// headKey names a head. Pages of different sizes use different heads.
type headKey struct {
	author string
	size   int
}

// head has the newest posts of an author. done is closed when posts and err are set; until then the
// read is in progress.
type head struct {
	at     time.Time // the read began
	oldest string    // the lowest requested id
	done   chan struct{}
	posts  page.Stretch[access.Ref]
	err    error
	bytes  int
}

func newHeads(cfg Config) *heads {
	h := &heads{
		now: cfg.Access.Now, age: cfg.HeadAge, maxBytes: cfg.HeadBytes, held: cfg.HeadsHeld,
		read: func(ctx context.Context, author, oldest string, size int) (page.Stretch[access.Ref], error) {
			return cfg.Access.PostsBy(ctx, &page.Budget{}, author, access.Span{Low: oldest}, size, size)
		},
	}
	var err error
	if h.kept, err = simplelru.NewLRU(1+h.maxBytes/headBytes, func(_ headKey, of *head) { h.bytes -= of.bytes }); err != nil {
		panic(err) // unreachable: the only error is for a size below 1
	}
	return h
}

// get returns the want newest posts of author from oldest on. The posts are at most h.age old.
func (h *heads) get(ctx context.Context, author, oldest string, want int) (page.Stretch[access.Ref], error) {
	key := headKey{author, page.DefaultLimit + 1}
	if want > key.size {
		key.size = page.MaxLimit + 1
	}
	h.mu.Lock()
	now := h.now()
	it, ok := h.kept.Get(key)
	if !ok || it.at.After(now) || now.Sub(it.at) >= h.age || !it.reaches(oldest, key.size) { // after now: the clock was set back
		it = &head{at: now, oldest: oldest, done: make(chan struct{})}
		h.put(key, it)
		h.mu.Unlock()
		h.fetch(ctx, key, it)
	} else {
		h.mu.Unlock()
	}
	if err := memory.Await(ctx, it.done); err != nil {
		return page.Stretch[access.Ref]{}, fault.Wrap("table", err)
	}
	return it.from(oldest, want), it.err
}

// put replaces the previous head of a key, and evicts the least recently used heads.
func (h *heads) put(key headKey, it *head) {
	h.kept.Remove(key)
	it.bytes = headBytes + refBytes*len(it.posts.Items)
	h.kept.Add(key, it)
	for h.bytes += it.bytes; h.bytes > h.maxBytes; {
		h.kept.RemoveOldest()
	}
	h.held(h.bytes)
}

// fetch reads a head. fetch does not end with the request, because other requests wait for the read. A
// failed read is not kept.
func (h *heads) fetch(ctx context.Context, key headKey, it *head) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), memory.ReadTime)
	defer cancel()
	it.err = panics.Catch(func() (err error) {
		it.posts, err = h.read(ctx, key.author, it.oldest, key.size)
		return err
	})
	close(it.done)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch kept, _ := h.kept.Peek(key); {
	case kept != it: // a newer head has replaced this head, or this head was evicted
	case it.err != nil:
		h.kept.Remove(key)
		h.held(h.bytes)
	default:
		h.put(key, it)
	}
}

// reaches reports whether the head has all posts from oldest on. A full head, or a head that the
// budget cut, ends at its last post.
func (it *head) reaches(oldest string, size int) bool {
	if it.oldest <= oldest {
		return true
	}
	select {
	case <-it.done:
		return it.posts.Cut != "" || len(it.posts.Items) == size
	default:
		return false
	}
}

// from returns the want newest posts of the head, from oldest on.
func (it *head) from(oldest string, want int) page.Stretch[access.Ref] {
	end := len(it.posts.Items)
	for end > 0 && it.posts.Items[end-1].Post < oldest {
		end--
	}
	part := page.Stretch[access.Ref]{Items: slices.Clone(it.posts.Items[:min(end, want)])}
	if end < want && it.posts.Cut > oldest {
		part.Cut = it.posts.Cut
	}
	return part
}
