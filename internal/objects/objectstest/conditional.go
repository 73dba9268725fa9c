package objectstest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/objects"
)

// RunConditional runs the suite of conditional stores as subtests of t. open returns an empty store.
func RunConditional(t *testing.T, open func(t *testing.T) objects.Conditional) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, objects.Conditional){
		"one version is replaced":          swapped,
		"of many swaps one wins":           oneSwapWins,
		"a bad name cannot be swapped":     badSwaps,
		"a swap of no object is an answer": swappedAway,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func swap(t *testing.T, s objects.Conditional, old objects.Version, content string) objects.Version {
	t.Helper()
	version, err := s.Swap(t.Context(), "register.json", old, objects.Bytes([]byte(content)))
	require.NoError(t, err)
	require.NotEmpty(t, version)
	return version
}

func swapped(t *testing.T, s objects.Conditional) {
	_, _, err := s.Fetch(t.Context(), "register.json", most)
	require.ErrorIs(t, err, objects.ErrNotThere)
	first := swap(t, s, "", "1")
	_, err = s.Swap(t.Context(), "register.json", "", objects.Bytes([]byte("2")))
	require.ErrorIs(t, err, objects.ErrChanged)
	second := swap(t, s, first, "2")
	require.NotEqual(t, first, second)
	_, err = s.Swap(t.Context(), "register.json", first, objects.Bytes([]byte("3")))
	require.ErrorIs(t, err, objects.ErrChanged)
	content, version, err := s.Fetch(t.Context(), "register.json", most)
	require.NoError(t, err)
	assert.Equal(t, "2", string(content))
	assert.Equal(t, second, version, "the versions of both calls can be compared")
	_, _, err = s.Fetch(t.Context(), "register.json", 0)
	assert.ErrorContains(t, err, "more than 0 bytes")
}

func oneSwapWins(t *testing.T, s objects.Conditional) {
	version := objects.Version("")
	for round := range 4 {
		versions, errs := make([]objects.Version, 16), make([]error, 16)
		var callers sync.WaitGroup
		for i := range errs {
			callers.Go(func() {
				versions[i], errs[i] = s.Swap(t.Context(), "register.json", version, objects.Bytes(fmt.Appendf(nil, "%d by %d", round, i)))
			})
		}
		callers.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil {
				assert.Equal(t, -1, winner, "two swaps of one version have won")
				winner = i
				continue
			}
			assert.ErrorIs(t, err, objects.ErrChanged)
		}
		require.GreaterOrEqual(t, winner, 0)
		version = versions[winner]
		content, _, err := s.Fetch(t.Context(), "register.json", most)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%d by %d", round, winner), string(content))
	}
}

func badSwaps(t *testing.T, s objects.Conditional) {
	_, err := s.Swap(t.Context(), "../a", "", objects.Bytes(nil))
	require.ErrorContains(t, err, "no name")
	_, _, err = s.Fetch(t.Context(), "../a", most)
	require.ErrorContains(t, err, "no name")
}

func swappedAway(t *testing.T, s objects.Conditional) {
	_, err := s.Swap(t.Context(), "register.json", `"0123456789abcdef0123456789abcdef"`, objects.Bytes([]byte("1")))
	require.Error(t, err)
	assert.NotErrorIs(t, err, objects.ErrAway)
}
