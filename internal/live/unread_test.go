package live_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/live"
	"fanfare/internal/schema"
	"fanfare/internal/table/tabletest"
)

// badge has the number of ann's unread notifications.
type badge struct {
	mu    sync.Mutex
	n     int
	mark  string
	reads int
	fail  error
}

func (b *badge) set(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n = n
}

func (b *badge) fails(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// moveMark moves the mark of the badge.
func (b *badge) moveMark(to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mark = to
}

func (b *badge) unread(context.Context, string) (live.Unread, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	return live.Unread{Number: b.n, Mark: b.mark}, b.fail
}

// read returns the number of reads after the last call of read.
func (b *badge) read() int {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.reads = 0 }()
	return b.reads
}

// got returns the numbers that a client has received.
func (c *client) got() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.unread, " ")
}

func withBadge(b *badge) func(*live.Config) {
	return func(c *live.Config) { c.Unread, c.SlowLook, c.LikesEach = b.unread, time.Minute, time.Hour }
}

// Each stream gets the number at its start, and each change once: a change by this process at once,
// and any other change at a slow look, or after a post.
func TestStreamsShowTheNumberOfUnreadNotifications(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &badge{n: 2}
		a := newAPI(t, tabletest.NewMemory(), withBadge(b))
		c := a.client(t, "ann", "")
		assert.Equal(t, "2", c.got())
		<-time.After(10 * time.Second)
		b.read()

		b.set(3)
		put(t, a.store, schema.Notice{User: "ann", Kind: schema.NoticeFollow, Revision: 1}.Item())
		<-time.After(100 * time.Millisecond)
		assert.Equal(t, "2 3", c.got(), "a notification of this process")
		b.set(0)
		put(t, a.store, schema.NoticeMarkItem("ann", "01"))
		<-time.After(100 * time.Millisecond)
		assert.Equal(t, "2 3 0", c.got(), "a mark of this process")
		assert.Equal(t, 2, b.read())

		put(t, a.store, schema.NoticeMarkItem("ben", "01"))
		put(t, a.store, schema.NoticeMarkItem("ann", "02"))
		<-time.After(100 * time.Millisecond)
		assert.Equal(t, "2 3 0", c.got(), "nothing has changed")
		assert.Equal(t, 1, b.read())

		b.set(5)
		<-time.After(time.Minute)
		assert.Equal(t, "2 3 0 5", c.got(), "by a slow look")
		// A client has read all notifications, and got 0 from that call. An equal number of new notifications
		// arrived between two looks.
		b.moveMark("02")
		<-time.After(time.Minute)
		assert.Equal(t, "2 3 0 5 5", c.got(), "the same number above another mark")
		b.read()
		<-time.After(time.Minute)
		assert.Equal(t, 1, b.read())
		b.set(6)
		a.deliver(t, "author", a.post(t, "author"), "ann")
		<-time.After(time.Second)
		assert.Equal(t, "2 3 0 5 5 6", c.got(), "after a post")
		b.read()
		<-time.After(time.Hour)
		assert.InDelta(t, 60, b.read(), 2)

		second := a.client(t, "ann", "")
		assert.Equal(t, "6", second.got())
		b.set(7)
		third := a.client(t, "ann", "")
		assert.Equal(t, "7", third.got())
		assert.Equal(t, "6 7", second.got())
		assert.Equal(t, "2 3 0 5 5 6 7", c.got())
		for _, c := range []*client{c, second, third} {
			c.leave()
		}
	})
}

// A burst of writes causes a bounded number of reads.
func TestABurstOfNotificationsIsReadOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &badge{}
		a := newAPI(t, tabletest.NewMemory(), withBadge(b))
		c := a.client(t, "ann", "")
		<-time.After(10 * time.Second)
		b.read()
		for i := range 1000 {
			b.set(i)
			put(t, a.store, schema.NoticeMarkItem("ann", "01"))
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Second)
		assert.LessOrEqual(t, b.read(), 55)
		assert.True(t, strings.HasSuffix(c.got(), " 999"), c.got())
		c.leave()
	})
}

// The next slow look replaces a failed read. No earlier look replaces it.
func TestANumberThatIsNotReadComesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &badge{n: 1}
		a := newAPI(t, tabletest.NewMemory(), withBadge(b))
		c := a.client(t, "ann", "")
		<-time.After(10 * time.Second)
		b.read()
		b.set(2)
		b.fails(errors.New("down"))
		put(t, a.store, schema.NoticeMarkItem("ann", "01"))
		<-time.After(10 * time.Second)
		assert.Equal(t, 1, b.read())
		b.fails(nil)
		<-time.After(time.Minute)
		assert.Equal(t, "1 2", c.got())
		c.leave()
	})
}
