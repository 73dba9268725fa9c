package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// loaded is a table whose writes and queries take a millisecond. Writes may fail.
type loaded struct {
	table.Store
	// fail, if not nil, is called with the number of each write.
	fail func(write int) error

	mu              sync.Mutex
	writes          int
	writing, asking int // the current numbers
	wrote, asked    int // the maximum numbers
}

func (l *loaded) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	return l.write(func() (table.WriteResult, error) { return l.Store.Put(ctx, in) })
}

func (l *loaded) Update(ctx context.Context, in table.UpdateInput) (table.WriteResult, error) {
	return l.write(func() (table.WriteResult, error) { return l.Store.Update(ctx, in) })
}

func (l *loaded) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	return l.write(func() (table.WriteResult, error) { return l.Store.BatchWrite(ctx, writes) })
}

func (l *loaded) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	return l.write(func() (table.WriteResult, error) { return l.Store.Transact(ctx, in) })
}

func (l *loaded) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		l.enter(&l.asking, &l.asked)
		l.leave(&l.asking)
		l.Store.Query(ctx, q)(yield)
	}
}

func (l *loaded) write(do func() (table.WriteResult, error)) (table.WriteResult, error) {
	n := l.enter(&l.writing, &l.wrote)
	defer l.leave(&l.writing)
	if l.fail != nil {
		if err := l.fail(n); err != nil {
			return table.WriteResult{}, err
		}
	}
	return do()
}

func (l *loaded) enter(now, most *int) (write int) {
	l.mu.Lock()
	if *now++; now == &l.writing {
		l.writes++
	}
	*most, write = max(*most, *now), l.writes
	l.mu.Unlock()
	<-time.After(time.Millisecond) // virtual time
	return write
}

func (l *loaded) leave(now *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*now--
}

func TestAnImportWaitsForATableThatIsAway(t *testing.T) {
	t.Parallel()
	name := file(t, network()...)
	synctest.Test(t, func(t *testing.T) {
		var once sync.Once
		var began time.Time
		store := &loaded{Store: tabletest.NewMemory(), fail: func(write int) error {
			if write < 4 {
				return nil
			}
			if once.Do(func() { began = time.Now() }); time.Since(began) < time.Second {
				return &table.UnavailableError{Op: "write", Err: errors.New("away")}
			}
			return nil
		}}
		done, err := transfer.Import(t.Context(), config(store), []string{name})
		require.NoError(t, err)
		assert.Equal(t, 3, done.Entries)
		assert.GreaterOrEqual(t, done.Seconds, 1.0)
	})
}

func TestAnImportEndsAtOnceAtAnErrorThatNoTimeMends(t *testing.T) {
	t.Parallel()
	name := file(t, network()...)
	for _, refusal := range []error{&table.InvalidError{Problem: "refused"}, &fault.Error{Kind: fault.NotFound, Detail: "refused"}} {
		synctest.Test(t, func(t *testing.T) {
			store := &loaded{Store: tabletest.NewMemory(), fail: func(write int) error {
				if write < 4 {
					return nil
				}
				return refusal
			}}
			done, err := transfer.Import(t.Context(), config(store), []string{name})
			require.ErrorContains(t, err, "refused")
			require.ErrorContains(t, err, name+":", "it names the line")
			assert.Less(t, done.Seconds, 0.04, "no step waits for another try")
		})
	}
}

// refusing is a table that refuses one batch. Deliveries and copies write batches.
type refusing struct {
	table.Store
	left atomic.Int64
}

func (r *refusing) BatchWrite(ctx context.Context, writes []table.BatchWrite) (table.WriteResult, error) {
	if r.left.Add(-1) == 0 {
		return table.WriteResult{}, &table.InvalidError{Problem: "refused"}
	}
	return r.Store.BatchWrite(ctx, writes)
}

func TestADeliveryThatFailsEndsAnImportWithItsCause(t *testing.T) {
	t.Parallel()
	name := file(t, network()...)
	for batch := int64(1); ; batch++ {
		store := &refusing{Store: tabletest.NewMemory()}
		store.left.Store(batch)
		cfg := config(store)
		cfg.PageSize = 1
		_, err := transfer.Import(t.Context(), cfg, []string{name})
		if store.left.Load() > 0 {
			require.NoError(t, err)
			require.Greater(t, batch, int64(2))
			return
		}
		require.ErrorContains(t, err, "refused", "batch %d", batch)
	}
}

// The chunks of a post are handled one after another, and no chunk may be left out.
func TestAPostOfManyChunksReachesAllFollowers(t *testing.T) {
	t.Parallel()
	cfg := config(tabletest.NewMemory())
	cfg.PageSize = 1
	done, err := transfer.Import(t.Context(), cfg, []string{file(t, network()...)})
	require.NoError(t, err)
	assert.Equal(t, 3, done.Entries)
}

func TestAnImportWorksOnAsManyRecordsAtOnceAsItMay(t *testing.T) {
	t.Parallel()
	var users []any
	for i := range 40 {
		users = append(users, rec{"type": "user", "id": fmt.Sprint("u", i), "name": "x", "time": ago(day)})
	}
	name := file(t, users...)
	synctest.Test(t, func(t *testing.T) {
		store := &loaded{Store: tabletest.NewMemory()}
		cfg := config(store)
		cfg.AtOnce = 4
		_, err := transfer.Import(t.Context(), cfg, []string{name})
		require.NoError(t, err)
		assert.Equal(t, []int{4, 4}, []int{store.wrote, store.asked}, "writes, and queries of the check at the end")
	})
}

// Between two reads of the check, users may change a count and its items.
func TestTheCheckOfAnImportWaitsForCountsThatAreChanging(t *testing.T) {
	t.Parallel()
	name := file(t, network()...)
	synctest.Test(t, func(t *testing.T) {
		store := tabletest.NewMemory()
		_, err := transfer.Import(t.Context(), config(store), []string{name})
		require.NoError(t, err)
		count := func(by int64) {
			_, err := store.Update(t.Context(), table.UpdateInput{Key: schema.CountsKey("ann"), Add: []table.Attr{{Name: schema.AttrPosts, Value: table.N(by)}}})
			assert.NoError(t, err)
		}
		count(1)
		time.AfterFunc(3*time.Second, func() { count(-1) }) // virtual time
		_, err = transfer.Import(t.Context(), config(store), []string{name})
		require.NoError(t, err)

		count(1)
		_, err = transfer.Import(t.Context(), config(store), []string{name})
		var missing *transfer.MissingError
		require.ErrorAs(t, err, &missing)
		assert.Equal(t, []string{"posts of ann: the count is 3, and there are 2"}, missing.Faults)
	})
}
