package dynamo_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

var noCapacity = failure(400, "ProvisionedThroughputExceededException", nil)

// refusing returns a Store on a fake that refuses the first tries of each call.
func refusing(t *testing.T, tries int, then reply) *dynamo.Store {
	t.Helper()
	return openFake(t, newFake(t, func(_ string, n int, _ object) reply {
		if n <= tries {
			return noCapacity
		}
		return then
	}))
}

// tries returns the number of requests so far.
func (f *fake) tries() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, calls := range f.calls {
		n += len(calls)
	}
	return n
}

// The result of a write of one item has the partition key once for each refused try, whether a
// later try succeeded or not. The result of a transaction has the key of each operation.
func TestEachRefusedTryOfAWriteNamesItsKey(t *testing.T) {
	t.Parallel()
	key := table.Key{PK: "p", SK: "s"}
	in := table.TransactInput{Ops: []table.TransactOp{
		{Delete: &table.DeleteInput{Key: table.Key{PK: "q", SK: "s"}}}, {Delete: &table.DeleteInput{Key: key}},
	}}
	for name, c := range map[string]struct {
		do   func(*dynamo.Store) (table.WriteResult, error)
		keys []string
	}{
		"put": {func(s *dynamo.Store) (table.WriteResult, error) {
			return s.Put(t.Context(), table.PutInput{Item: table.Item{Key: key}})
		}, []string{"p"}},
		"conditional put": {func(s *dynamo.Store) (table.WriteResult, error) {
			return s.Put(t.Context(), table.PutInput{Item: table.Item{Key: key}, If: table.Absent{}})
		}, []string{"p"}},
		"update": {func(s *dynamo.Store) (table.WriteResult, error) {
			return s.Update(t.Context(), table.UpdateInput{Key: key, Add: []table.Attr{{Name: "n", Value: table.N(1)}}})
		}, []string{"p"}},
		"delete": {func(s *dynamo.Store) (table.WriteResult, error) {
			return s.Delete(t.Context(), table.DeleteInput{Key: key})
		}, []string{"p"}},
		"transact": {func(s *dynamo.Store) (table.WriteResult, error) { return s.Transact(t.Context(), in) }, []string{"q", "p"}},
	} {
		for _, tries := range []int{0, 1, 2} {
			t.Run(fmt.Sprint(name, "/", tries), func(t *testing.T) {
				res, err := c.do(refusing(t, tries, reply{}))
				require.NoError(t, err)
				assert.Equal(t, slices.Repeat(c.keys, tries), append([]string{}, res.Refused...))
				assert.Equal(t, tries > 0, res.Throttled())
			})
		}
		t.Run(name+"/for good", func(t *testing.T) {
			f := newFake(t, func(string, int, object) reply { return noCapacity })
			res, err := c.do(openFake(t, f))
			require.Error(t, err)
			assert.Equal(t, slices.Repeat(c.keys, f.tries()), res.Refused)
		})
		t.Run(name+"/another failure", func(t *testing.T) {
			res, err := c.do(refusing(t, 0, failure(400, "AccessDeniedException", nil)))
			require.Error(t, err)
			assert.Empty(t, res.Refused)
		})
	}
}

// The result of a batch has the partition key of each unprocessed write, once for each time.
func TestEachRefusedTryOfABatchNamesItsKeys(t *testing.T) {
	t.Parallel()
	writes := make([]table.BatchWrite, 3)
	for i, pk := range []string{"a", "b", "c"} {
		writes[i].Put = &table.Item{Key: table.Key{PK: pk, SK: "s"}}
	}
	t.Run("in the end taken", func(t *testing.T) {
		f := newFake(t, func(_ string, n int, in object) reply {
			all := in["RequestItems"].(object)["t"].([]any)
			switch n {
			case 1, 3:
				return reply{body: object{"UnprocessedItems": object{"t": all[1:]}}}
			case 2:
				return noCapacity
			}
			return reply{}
		})
		res, err := openFake(t, f).BatchWrite(t.Context(), writes)
		require.NoError(t, err)
		assert.Equal(t, []string{"b", "c", "b", "c", "c"}, res.Refused)
	})
	t.Run("for good", func(t *testing.T) {
		f := newFake(t, func(string, int, object) reply { return noCapacity })
		res, err := openFake(t, f).BatchWrite(t.Context(), writes)
		require.Error(t, err)
		assert.Equal(t, slices.Repeat([]string{"a", "b", "c"}, f.tries()), res.Refused)
	})
}
