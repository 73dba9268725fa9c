package fanout_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// awsPageSize is the page size of the daemons on AWS.
const awsPageSize = 4096

// TestDeliveryCosts checks the targets T4 and T5, at the default sizes and at the sizes of the
// daemons on AWS. It counts the write units of a delivery and of the post's own transaction,
// the read units, and the queue requests without any batches of receives or deletes. The
// author's own entry counts as delivered, too.
func TestDeliveryCosts(t *testing.T) {
	tests := []struct {
		followers     int
		pageSize      int // 0 for the default
		writes, reads float64
		sends, msgs   int // of the fan-out, without PostCreated
		wcuPerDeliver float64
	}{
		// The transaction writes four items and the post's place in the index, for 9 units. The plan and the
		// chunk cost 1 unit each. The reads are the post, the mode and the followers. An edge has 40 bytes
		// here, so 100 edges are 1 unit, 1,024 are 10, and 4,000 and 4,096 are 40.
		{followers: 100, writes: 9 + 100 + 1 + 1, reads: 1 + 1 + 1, wcuPerDeliver: 1.2},
		{followers: 1000, writes: 9 + 1000 + 1 + 1, reads: 1 + 1 + 10, wcuPerDeliver: 1.01},
		// If one page holds all followers, no chunk is needed.
		{followers: 4096, pageSize: awsPageSize, writes: 9 + 4096 + 1 + 1, reads: 1 + 1 + 40, wcuPerDeliver: 1.01},
		// If one page does not hold all followers, each chunk is stored and marked done. PostCreated reads the
		// post, the mode with the count of followers, and the first page. The planner reads the post, the
		// stored chain, and all followers at half the price. Each chunk message reads the chunk, the post and
		// the followers for each page, and in the end the plan.
		{
			followers: 4097, pageSize: awsPageSize, sends: 3, msgs: 3, wcuPerDeliver: 1.01,
			writes: 9 + 4097 + 1 + 2*2,
			reads:  1 + 40 + 1 + 2 + (40+1)/2. + (1 + 1 + 40) + (1 + 1 + 1) + 2,
		},
		{
			followers: 10_000, sends: 3, msgs: 4, wcuPerDeliver: 1.01,
			writes: 9 + 10_000 + 1 + 2*3,
			reads:  1 + 10 + 1 + 2 + (2*40+20)/2. + 2*(1+4*(1+10)) + (1 + 2*(1+10)) + 3,
		},
		{
			followers: 10_000, pageSize: awsPageSize, sends: 3, msgs: 4, wcuPerDeliver: 1.01,
			writes: 9 + 10_000 + 1 + 2*3,
			reads:  1 + 40 + 1 + 2 + (2*40+20)/2. + 2*(1+1+40) + (1 + 1 + 20) + 3,
		},
		{
			followers: 25_000, sends: 4, msgs: 8, wcuPerDeliver: 1.01,
			writes: 9 + 25_000 + 1 + 2*7,
			reads:  1 + 10 + 1 + 2 + (6*40+10)/2. + 6*(1+4*(1+10)) + (1 + 1 + 10) + 7,
		},
		{
			followers: 25_000, pageSize: awsPageSize, sends: 4, msgs: 8, wcuPerDeliver: 1.01,
			writes: 9 + 25_000 + 1 + 2*7,
			reads:  1 + 40 + 1 + 2 + (6*40+10)/2. + 6*(1+1+40) + (1 + 1 + 10) + 7,
		},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d followers, page %d", tt.followers, tt.pageSize), func(t *testing.T) {
			w := newWorld(t, tt.followers, func(c *fanout.Config) { c.PageSize = tt.pageSize })
			e := w.post()
			e.Text = strings.Repeat("x", 500)
			w.enqueue(e)
			w.drain(w.worker)
			require.Equal(t, int64(tt.followers+1), *w.delivery(e.PostID).Delivered)
			assert.Equal(t, tt.writes, w.units.Write)
			assert.Equal(t, tt.reads, w.units.Read)
			deliveries := float64(tt.followers + 1)
			assert.LessOrEqual(t, w.units.Write/deliveries, tt.wcuPerDeliver, "write units per delivery (T4)")
			if w.publish != tt.sends || w.sent != tt.msgs {
				t.Errorf("%d messages in %d sends, want %d in %d", w.sent, w.publish, tt.msgs, tt.sends)
			}
			// PostCreated costs one send, one receive and one delete. Each other message costs a receive
			// and a delete of its own.
			requests := 3 + w.publish + 2*w.sent
			if got := 1000 * float64(requests) / deliveries; got > 3 && tt.followers > 1000 {
				t.Errorf("%.2f queue requests per 1,000 deliveries, want at most 3 (T5)", got)
			}
		})
	}
}

// TestChunksCoverEveryIDThereCanBe compares the bounds of ranges with the ids close to these bounds.
func TestChunksCoverEveryIDThereCanBe(t *testing.T) {
	alphabet := "-09:@Z_z|"
	ids := []string{}
	for _, a := range "-09Z_z" {
		ids = append(ids, string(a))
		for _, b := range alphabet {
			ids = append(ids, string(a)+string(b))
			for _, c := range alphabet {
				ids = append(ids, string(a)+string(b)+string(c), string(a)+string(b)+string(c)+strings.Repeat("z", 61))
			}
		}
	}
	for _, end := range ids {
		require.Truef(t, id.ValidUser(end), "%q is no user id", end)
		bound := schema.BelowUser(end)
		for _, user := range ids {
			if below := schema.UserSK(user) <= bound; below != (user < end) { // for two million pairs
				t.Fatalf("the range before %q ends at %q: %q is in it: %t", end, bound, user, below)
			}
		}
	}
}

// TestPlannersMessagesStayBounded plans many chunks. No message, publish or query may
// grow with the number of followers (I9).
func TestPlannersMessagesStayBounded(t *testing.T) {
	w := newWorld(t, 990, func(c *fanout.Config) { c.PageSize, c.ChunkSize, c.PlanChunks = 8, 8, 25 })
	e := w.post()
	w.enqueue(e)
	w.drain(w.worker)
	w.wantDelivered(e.PostID, 990)
	// 124 chunks need five plans. The first plan sends 1, 2, 4, 8 and 10 chunks, and the next
	// plan. Each later plan sends 10 chunks, 10 chunks, and then 5 chunks with the next plan,
	// or the last 4 chunks. The first plan was also sent.
	if w.sent != 124+5 || w.publish != 1+6+4*3 {
		t.Errorf("%d messages in %d sends", w.sent, w.publish)
	}
}

// TestAChunkReadsOnePageAheadAndNoMore lets each call take a second. The post and the next page
// are read while a page is written, and the worker never holds more than two pages (I9).
func TestAChunkReadsOnePageAheadAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 39, func(c *fanout.Config) { c.PageSize, c.ChunkSize = 8, 40 })
		w.must(w.worker.HandlePosts(t.Context(), w.post()))
		w.must(w.worker.HandleChunks(t.Context(), w.take()))
		held, most := 0, 0
		count := func(n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			held += n
			most = max(most, held)
		}
		w.store.around = func(op table.Op, _ []table.Key, do func() error) error {
			if op == table.OpQuery {
				count(1)
			}
			<-time.After(time.Second)
			err := do()
			if op == table.OpBatchWrite {
				count(-1)
			}
			return err
		}
		start := time.Now()
		w.must(w.worker.HandleChunks(t.Context(), w.take()))
		// One call reads the chunk and two calls read the first page. Four times, two calls read the next page
		// during a write. The last write, the mark that the chunk is done, and the read of the plan follow.
		assert.Equal(t, (1+2+4*2+1+1+1)*time.Second, time.Since(start), "a chunk of five pages took")
		// The time shows that reads and writes overlap. A write may end in the instant in which the next query
		// begins, so most may also be 1.
		assert.LessOrEqual(t, most, 2, "pages were held at once")
	})
}
