package live

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

const (
	// mostEdges bounds the number of authors in the lists of all homes (I9). An edge takes about 60 bytes.
	mostEdges = 4_000_000
	// mostAuthors is the maximum number of authors in the list of a home.
	mostAuthors = 5000
	// strikes is the number of consecutive posts of an author that did not arrive, after which the author's
	// posts give a home no hints (H8).
	strikes = 5
	// behindTime is the time for which deliveries count as behind after a late post.
	behindTime = 5 * time.Minute
)

// author is the hash of a user id. If two authors have the same hash, some looks find no new post.
type author uint64

// readers maps authors to the homes of this process that show their posts, for hints. If a list is
// wrong, an event is late or a look finds no new post, but no event is wrong.
type readers struct {
	seed maphash.Seed
	most int
	// count changes the number of homes without a list.
	count func(change int)

	mu    sync.RWMutex
	homes map[author][]*userHome
	edges int
	// late has the last authors with late posts, and the times of these posts.
	late [3]struct {
		author author
		at     time.Time
	}
}

// authors are the authors of one home. readers.mu guards the fields of authors.
type authors struct {
	listed []author
	// missed has the number of an author's consecutive posts that did not arrive.
	missed map[author]int
	// While a list is read, changes collects the changes of the list.
	reading bool
	changes []edge
	// unlisted is set if the list did not fit into memory. partial is set if an author who was added later
	// did not fit.
	unlisted, partial bool
	// closed is set once the last stream of the home has ended.
	closed bool
}

// edge is a change of a list: the list's user begins or ends to follow the author.
type edge struct {
	author author
	heard  bool
}

func newReaders(most int, count func(change int)) *readers {
	return &readers{seed: maphash.MakeSeed(), most: most, count: count, homes: map[author][]*userHome{}}
}

func (r *readers) hash(user string) author { return author(maphash.String(r.seed, user)) }

// of returns the homes that may show posts of an author.
func (r *readers) of(by author) []*userHome {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.homes[by])
}

// hinted returns the homes that get hints of an author's posts.
func (r *readers) hinted(by author) []*userHome {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(r.homes[by]), func(hm *userHome) bool { return hm.authors.missed[by] >= strikes })
}

// lists reports whether a home may show posts of an author.
func (r *readers) lists(hm *userHome, by author) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Contains(r.homes[by], hm)
}

// whole reports whether a home's list has all authors that the list should have.
func (r *readers) whole(hm *userHome) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return !hm.authors.unlisted && !hm.authors.partial
}

// begin notes that a read of a home's list begins. After a failed read, changes are still collected,
// until the next read begins.
func (r *readers) begin(hm *userHome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hm.authors.reading, hm.authors.changes = true, nil
}

// set replaces the list of a home by the list that was read, with the changes after begin. If the list
// is not whole or does not fit into memory, set returns false, and the home has no list.
func (r *readers) set(hm *userHome, users []string, whole bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &hm.authors
	changes := l.changes
	l.reading, l.changes = false, nil
	if l.closed {
		return true
	}
	r.clear(hm)
	if !whole || r.edges+len(users) > r.most {
		r.unlisted(hm, true)
		return false
	}
	r.unlisted(hm, false)
	for _, user := range users {
		r.add(hm, r.hash(user))
	}
	for _, e := range changes {
		r.apply(hm, e)
	}
	return true
}

// unlisted records whether a home has no list, and counts such homes. The caller must hold mu.
func (r *readers) unlisted(hm *userHome, is bool) {
	switch l := &hm.authors; {
	case is && !l.unlisted:
		r.count(1)
	case !is && l.unlisted:
		r.count(-1)
	}
	hm.authors.unlisted = is
}

// drop removes the list of a home whose last stream has ended.
func (r *readers) drop(hm *userHome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear(hm)
	r.unlisted(hm, false)
	hm.authors.closed = true
}

// clear removes the list of a home. The caller must hold mu.
func (r *readers) clear(hm *userHome) {
	l := &hm.authors
	for _, by := range l.listed {
		r.remove(hm, by)
	}
	l.listed, l.missed, l.partial = nil, map[author]int{}, false
}

// change applies a change of an edge by a call through this process to a home's list.
func (r *readers) change(hm *userHome, e edge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &hm.authors
	if l.closed {
		return
	}
	if l.reading {
		l.changes = append(l.changes, e)
	}
	if !l.unlisted {
		r.apply(hm, e)
	}
}

func (r *readers) apply(hm *userHome, e edge) {
	delete(hm.authors.missed, e.author)
	if e.heard {
		r.add(hm, e.author)
		return
	}
	r.unlist(hm, e.author)
}

func (r *readers) add(hm *userHome, by author) {
	if slices.Contains(r.homes[by], hm) {
		return
	}
	if r.edges >= r.most {
		hm.authors.partial = true
		return
	}
	hm.authors.listed = append(hm.authors.listed, by)
	r.homes[by] = append(r.homes[by], hm)
	r.edges++
}

func (r *readers) unlist(hm *userHome, by author) {
	if i := slices.Index(hm.authors.listed, by); i >= 0 {
		hm.authors.listed = slices.Delete(hm.authors.listed, i, i+1)
		r.remove(hm, by)
	}
}

// remove removes a home from the homes of an author.
func (r *readers) remove(hm *userHome, by author) {
	homes := r.homes[by]
	i := slices.Index(homes, hm)
	if i < 0 {
		return
	}
	r.edges--
	homes[i] = homes[len(homes)-1]
	homes[len(homes)-1] = nil // the array is kept, and must not keep a reference to the home
	if homes = homes[:len(homes)-1]; len(homes) == 0 {
		delete(r.homes, by)
		return
	}
	r.homes[by] = homes
}

// judge uses the outcomes of hinted posts. If several consecutive posts of an author did not arrive,
// the author's posts give no hints until the next read of the list, because the home's user may have
// unfollowed the author through another process. The author stays in the list, because the home may show
// earlier posts, whose deletions cost nothing (C5). While deliveries are behind, no author is judged.
func (r *readers) judge(hm *userHome, posts []came) {
	if len(posts) == 0 {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &hm.authors
	for _, p := range posts {
		switch {
		case p.late:
			r.cameLate(p.author, now)
			delete(l.missed, p.author)
		case !p.missed:
			delete(l.missed, p.author)
		case !r.behind(now) && slices.Contains(l.listed, p.author):
			l.missed[p.author]++
		}
	}
}

// shown adds the author of a post in a look to the list, and lets the author's posts give hints again.
// Such an author may have been followed through another process.
func (r *readers) shown(hm *userHome, user string) { r.change(hm, edge{r.hash(user), true}) }

// cameLate records an author whose post arrived after all looks for the post's hint.
func (r *readers) cameLate(by author, now time.Time) {
	oldest := 0
	for i, l := range r.late {
		if l.author == by {
			oldest = i
			break
		}
		if l.at.Before(r.late[oldest].at) {
			oldest = i
		}
	}
	r.late[oldest].author, r.late[oldest].at = by, now
}

// behind reports whether deliveries are behind: several authors have late posts. The posts of a single
// author may be late because the author has very many followers.
func (r *readers) behind(now time.Time) bool {
	for _, l := range r.late {
		if now.Sub(l.at) > behindTime {
			return false
		}
	}
	return true
}
