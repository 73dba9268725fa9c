package tabletest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	Run(t, func(*testing.T) table.Store { return NewMemory() })
}

func TestStaleKeepsTheContractOfConsistentReads(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			Run(t, func(*testing.T) table.Store { return Stale(NewMemory(), seed) })
		})
	}
}

// Stale must sometimes give stale answers: otherwise it would prove nothing.
func TestStaleServesFormerVersions(t *testing.T) {
	old, now := "old", "now"
	reads := map[string]func(s table.Store, key table.Key) (string, error){
		"get": func(s table.Store, key table.Key) (string, error) {
			res, err := s.Get(t.Context(), table.GetInput{Key: key})
			if res.Item == nil {
				return "", err
			}
			return res.Item.Str("v"), err
		},
		"batch get": func(s table.Store, key table.Key) (string, error) {
			res, err := s.BatchGet(t.Context(), table.BatchGetInput{Keys: []table.Key{key}, Project: []string{"v"}})
			return versions(res.Items), err
		},
		"query": func(s table.Store, key table.Key) (string, error) {
			items, _, err := table.Collect(s.Query(t.Context(), table.Query{PK: key.PK}), 0)
			return versions(items), err
		},
		"index": func(s table.Store, key table.Key) (string, error) {
			items, _, err := table.Collect(s.Query(t.Context(), table.Query{PK: "gsi " + key.PK, Index: true}), 0)
			return versions(items), err
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			seen := map[string]int{}
			for seed := range uint64(50) {
				s := Stale(NewMemory(), seed)
				key := table.Key{PK: fmt.Sprint(seed), SK: "s"}
				for _, v := range []string{old, now} {
					it := item(key, append(indexed("gsi "+key.PK, "1"), str("v", v))...)
					_, err := s.Put(t.Context(), table.PutInput{Item: it})
					require.NoError(t, err)
					for range 2 {
						got, err := read(s, key)
						require.NoError(t, err)
						if v == old && got == now {
							t.Fatal("a read saw the future")
						}
						seen[v+" read as "+got]++
					}
				}
				if got, err := read(s, table.Key{PK: "nobody", SK: "s"}); got != "" || err != nil {
					t.Fatalf("an absent item was read as %q, %v", got, err)
				}
			}
			for _, want := range []string{"old read as ", "old read as old", "now read as old", "now read as now"} {
				assert.NotZerof(t, seen[want], "never: %s; seen: %v", want, seen)
			}
		})
	}
}

func versions(items []table.Item) string {
	var s strings.Builder
	for _, it := range items {
		s.WriteString(it.Str("v"))
	}
	return s.String()
}
