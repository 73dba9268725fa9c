package tabletest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

func transactTests() []test {
	return []test{
		{"ChecksAloneReadAStateOfOneMoment", func(t *testing.T, s *suite) {
			there, gone := item(s.key(), num("n", 7)), s.key()
			s.put(t, there)
			check := func(key table.Key, cond table.Cond) table.TransactOp {
				return table.TransactOp{Check: &table.CheckInput{Key: key, If: cond}}
			}
			_, err := s.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{
				check(there.Key, table.Equal{Name: "n", Value: table.N(7)}), check(gone, table.Absent{}),
			}})
			require.NoError(t, err)
			_, err = s.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{check(there.Key, table.Exists{}), check(gone, table.Exists{})}})
			failed := cancelled(t, err)
			assert.False(t, failed.Failed(0))
			assert.True(t, failed.Failed(1))
		}},
		{"DoesAllKindsOfOperation", func(t *testing.T, s *suite) {
			put, update, del, check := s.key(), s.key(), s.key(), s.key()
			s.put(t, item(update, num("n", 1), str("gone", "x")), item(del), item(check, num("n", 7)))
			s.transact(t,
				table.TransactOp{Put: &table.PutInput{Item: item(put, str("a", "1")), If: table.Absent{}}},
				table.TransactOp{Update: &table.UpdateInput{
					Key: update, Set: []table.Attr{str("b", "2")}, Add: []table.Attr{num("n", 1)}, Remove: []string{"gone"},
					If: table.Exists{},
				}},
				table.TransactOp{Delete: &table.DeleteInput{Key: del, If: table.Exists{}}},
				table.TransactOp{Check: &table.CheckInput{Key: check, If: table.Equal{Name: "n", Value: table.N(7)}}})
			s.holds(t, item(put, str("a", "1")))
			s.holds(t, item(update, num("n", 2), str("b", "2")))
			s.lacks(t, del)
			s.holds(t, item(check, num("n", 7)))
		}},
		{"DoesNothingWhenOneConditionFails", func(t *testing.T, s *suite) {
			put, update, del, check := s.key(), s.key(), s.key(), s.key()
			old := item(check, num("n", 7), str("v", "x"))
			s.put(t, item(update, num("n", 1)), item(del), old)
			ops := []table.TransactOp{
				{Put: &table.PutInput{Item: item(put, str("a", "1"))}},
				{Update: &table.UpdateInput{Key: update, Add: []table.Attr{num("n", 1)}}},
				{Check: &table.CheckInput{Key: check, If: table.Less{Name: "n", Value: table.N(7)}}},
				{Delete: &table.DeleteInput{Key: del}},
			}
			_, err := s.Transact(t.Context(), table.TransactInput{Ops: ops})
			failed := cancelled(t, err)
			assert.False(t, failed.Retryable(), "a failed condition is said to be retryable")
			require.Lenf(t, failed.Reasons, len(ops), "%d reasons for %d operations", len(failed.Reasons), len(ops))
			for i, r := range failed.Reasons {
				assert.Equalf(t, ops[i].Key(), r.Key, "reason %d names", i)
				assert.Equalf(t, i == 2, failed.Failed(i), "Failed(%d)", i)
			}
			equal(t, "old item", failed.Reasons[2].Old, &old)
			s.lacks(t, put)
			s.holds(t, item(update, num("n", 1)))
			s.holds(t, item(del))
		}},
		{"NamesEachConditionThatFailed", func(t *testing.T, s *suite) {
			there, absent, fine := item(s.key(), str("v", "x")), s.key(), s.key()
			s.put(t, there)
			_, err := s.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{
				{Put: &table.PutInput{Item: item(there.Key), If: table.Absent{}}},
				{Put: &table.PutInput{Item: item(fine), If: table.Absent{}}},
				{Update: &table.UpdateInput{Key: absent, Add: []table.Attr{num("n", 1)}, If: table.Exists{}}},
			}})
			failed := cancelled(t, err)
			if !failed.Failed(0) || failed.Failed(1) || !failed.Failed(2) {
				t.Fatalf("reasons = %+v, want the first and the last", failed.Reasons)
			}
			equal(t, "old item of a put", failed.Reasons[0].Old, &there)
			equal(t, "old item of an update", failed.Reasons[2].Old, nil)
			s.lacks(t, fine)
		}},
		{"HoldsAHundredOperations", func(t *testing.T, s *suite) {
			pk := s.partition()
			var ops []table.TransactOp
			var want []table.Item
			for i := range table.MaxTransact {
				it := item(table.Key{PK: pk, SK: fmt.Sprintf("%03d", i)}, num("n", int64(i)))
				want = append(want, it)
				ops = append(ops, table.TransactOp{Put: &table.PutInput{Item: it, If: table.Absent{}}})
			}
			s.transact(t, ops...)
			equalItems(t, "items", s.query(t, table.Query{PK: pk, Consistent: true}), want)

			// If the last of a hundred operations fails, all operations fail.
			pk = s.partition()
			ops = ops[:0]
			for i := range table.MaxTransact - 1 {
				ops = append(ops, table.TransactOp{Put: &table.PutInput{Item: item(table.Key{PK: pk, SK: fmt.Sprint(i)})}})
			}
			ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: want[0].Key, If: table.Absent{}}})
			_, err := s.Transact(t.Context(), table.TransactInput{Ops: ops})
			assert.Truef(t, cancelled(t, err).Failed(table.MaxTransact-1), "error = %v, want the last operation named", err)
			equalItems(t, "items", s.query(t, table.Query{PK: pk, Consistent: true}), nil)
		}},
		{"CanBeDoneAgain", func(t *testing.T, s *suite) {
			key := s.key()
			for range 2 {
				s.transact(t, table.TransactOp{Update: &table.UpdateInput{Key: key, Add: []table.Attr{num("n", 1)}}})
			}
			s.holds(t, item(key, num("n", 2)))
		}},
	}
}

func concurrencyTests() []test {
	return []test{
		{"OneOfManyCreatorsWins", func(t *testing.T, s *suite) {
			key := s.key()
			var mu sync.Mutex
			var winner int64
			var seen []*table.Item
			together(t, 8, func(who int) error {
				_, err := s.Put(t.Context(), table.PutInput{Item: item(key, num("who", int64(who))), If: table.Absent{}})
				mu.Lock()
				defer mu.Unlock()
				if failed, ok := errors.AsType[*table.ConditionError](err); ok {
					seen = append(seen, failed.Old)
					return nil
				}
				winner = int64(who)
				return err
			})
			require.Len(t, seen, 7)
			want := item(key, num("who", winner))
			for _, old := range seen {
				equal(t, "item that a loser saw", old, &want)
			}
			s.holds(t, want)
		}},
		{"AddsAreExact", func(t *testing.T, s *suite) {
			key := s.key()
			together(t, 8, func(int) error {
				for range 10 {
					if _, err := s.Update(t.Context(), table.UpdateInput{Key: key, Add: []table.Attr{num("n", 1)}}); err != nil {
						return err
					}
				}
				return nil
			})
			s.holds(t, item(key, num("n", 80)))
		}},
		{"ConditionalIncrementsAreExact", func(t *testing.T, s *suite) {
			key := s.key()
			s.put(t, item(key, num("n", 0)))
			together(t, 4, func(int) error {
				n := int64(0)
				for done := 0; done < 8; {
					_, err := s.Put(t.Context(), table.PutInput{
						Item: item(key, num("n", n+1)),
						If:   table.Equal{Name: "n", Value: table.N(n)},
					})
					if failed, ok := errors.AsType[*table.ConditionError](err); ok {
						n = failed.Old.Int("n")
						continue
					}
					if err != nil {
						return err
					}
					n++
					done++
				}
				return nil
			})
			s.holds(t, item(key, num("n", 32)))
		}},
		{"TransactionsAreExactAndConflictsAreRetryable", func(t *testing.T, s *suite) {
			pk := s.partition()
			account := func(i int) table.Key { return table.Key{PK: pk, SK: fmt.Sprint("account ", i%3)} }
			for i := range 3 {
				s.put(t, item(account(i), num("n", -10)))
			}
			together(t, 4, func(who int) error {
				for i := range 6 {
					// Each call moves a debt of 1 from one account to the next account, in
					// either order, and counts the move.
					from, to := account(who+i), account(who+i+1)
					ops := []table.TransactOp{
						{Update: &table.UpdateInput{Key: from, Add: []table.Attr{num("n", 1)}, If: table.Less{Name: "n", Value: table.N(0)}}},
						{Update: &table.UpdateInput{Key: to, Add: []table.Attr{num("n", -1)}}},
						{Update: &table.UpdateInput{Key: table.Key{PK: pk, SK: "moves"}, Add: []table.Attr{num("n", 1)}}},
					}
					if i%2 == 1 {
						ops[0], ops[1] = ops[1], ops[0]
					}
					if err := s.retry(t, ops); err != nil {
						return err
					}
				}
				return nil
			})
			sum := int64(0)
			for i := range 3 {
				sum += s.read(t, account(i)).Int("n")
			}
			moves := s.read(t, table.Key{PK: pk, SK: "moves"}).Int("n")
			if sum != -30 || moves != 24 {
				t.Errorf("sum = %d after %d moves, want -30 after 24", sum, moves)
			}
		}},
		{"BatchesAndConditionsOnOneKeyAreSerial", func(t *testing.T, s *suite) {
			// A batch overwrites a counter while concurrent calls raise the counter. Each raise
			// must start from the value of the batch or from the result of another raise.
			key := s.key()
			s.put(t, item(key, num("n", 0)))
			together(t, 3, func(who int) error {
				for i := range 8 {
					if who == 0 {
						reset := item(key, num("n", int64(i+1)*1000))
						if _, err := s.BatchWrite(t.Context(), []table.BatchWrite{{Put: &reset}}); err != nil {
							return err
						}
						continue
					}
					res, err := s.Update(t.Context(), table.UpdateInput{Key: key, Add: []table.Attr{num("n", 1)}, ReturnNew: true})
					if err != nil {
						return err
					}
					if got := res.Item.Int("n") % 1000; got < 1 || got > 16 {
						return fmt.Errorf("an increment returned %d", res.Item.Int("n"))
					}
				}
				return nil
			})
			if got := s.read(t, key).Int("n"); got < 8000 || got > 8016 {
				t.Errorf("n = %d in the end, want 8000 to 8016", got)
			}
		}},
	}
}

// together makes n calls at the same time, and fails with their errors.
func together(t *testing.T, n int, call func(who int) error) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = call(i) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

// retry repeats a transaction as long as a conflict cancels the transaction.
func (s *suite) retry(t *testing.T, ops []table.TransactOp) error {
	for range 1000 {
		_, err := s.Transact(t.Context(), table.TransactInput{Ops: ops})
		failed, ok := errors.AsType[*table.CancelledError](err)
		if !ok || !failed.Retryable() {
			return err
		}
	}
	return errors.New("a transaction found a conflict 1000 times")
}
