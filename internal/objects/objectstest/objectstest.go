// Package objectstest is the contract of package objects as one suite that every backend
// passes.
package objectstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/objects"
)

// most is larger than each object of the suite.
const most = 16 << 20

// Option is a way in which a store differs from the contract.
type Option func(map[string]func(*testing.T, objects.Store))

// AcceptsDamage is for a store that does not compare a content with its checksum, for a reason.
// The suite then expects that the store accepts a damaged content.
func AcceptsDamage(reason string) Option {
	return func(tests map[string]func(*testing.T, objects.Store)) {
		delete(tests, damagedName)
		tests["a damaged content is accepted: "+reason] = func(t *testing.T, s objects.Store) {
			t.Helper()
			require.NoError(t, s.Create(t.Context(), "a", damagedBody()))
		}
	}
}

const damagedName = "a damaged content is refused"

// Run runs the suite as subtests of t. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) objects.Store, options ...Option) {
	t.Helper()
	tests := map[string]func(*testing.T, objects.Store){
		"an object is read as it was created": readAsCreated,
		"a name is taken once":                takenOnce,
		"of many writers one wins":            oneWins,
		"one content has one winner":          repeatedByMany,
		"a list is in the order of bytes":     listed,
		"a list begins after a name":          listedAfter,
		"a deleted object is gone":            deleted,
		"a bad name is refused":               badNames,
		damagedName:                           damaged,
		"a call ends with its context":        ended,
	}
	for _, option := range options {
		option(tests)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func create(t *testing.T, s objects.Store, name, content string) {
	t.Helper()
	require.NoError(t, s.Create(t.Context(), name, objects.Bytes([]byte(content))))
}

func read(t *testing.T, s objects.Store, name string) string {
	t.Helper()
	content, err := objects.Read(t.Context(), s, name, most)
	require.NoError(t, err)
	return string(content)
}

func names(t *testing.T, s objects.Store, prefix, after string) []string {
	t.Helper()
	var all []string
	for o, err := range s.List(t.Context(), prefix, after) {
		require.NoError(t, err)
		all = append(all, o.Name)
	}
	return all
}

func readAsCreated(t *testing.T, s objects.Store) {
	large := make([]byte, 5<<20+1)
	for i := range large {
		large[i] = byte(i * i >> 3)
	}
	began := time.Now()
	for name, content := range map[string]string{
		"empty": "", "one": "1", "t/0001/term.json": `{"format":1}`, "f/" + strings.Repeat("0a", 32): string(large), "with_Every-kind.of9": "x\x00\xff\n",
	} {
		create(t, s, name, content)
		if read(t, s, name) != content {
			t.Errorf("%s has another content", name)
		}
		for o, err := range s.List(t.Context(), name, "") {
			require.NoError(t, err)
			assert.Equal(t, name, o.Name)
			assert.EqualValues(t, len(content), o.Size)
			if content != "" { // a file system in memory has no time for an empty file
				assert.WithinDuration(t, began, o.At, time.Hour)
			}
		}
	}
	_, err := objects.Read(t.Context(), s, "with_Every-kind.of9", 3)
	assert.ErrorContains(t, err, "more than 3 bytes")
	for _, absent := range []string{"absent", "t/absent", "t/0001/term", "t/0001/absent/further"} {
		_, err := s.Get(t.Context(), absent)
		require.ErrorIs(t, err, objects.ErrNotThere)
	}
}

func takenOnce(t *testing.T, s objects.Store) {
	create(t, s, "t/1", "first")
	create(t, s, "t/1", "first") // a repeated try after a lost answer
	for _, other := range []string{"second", "", "first and more"} {
		err := s.Create(t.Context(), "t/1", objects.Bytes([]byte(other)))
		exists, ok := errors.AsType[*objects.ExistsError](err)
		require.Truef(t, ok, "%v", err)
		assert.Equal(t, objects.ExistsError{Name: "t/1", SHA256: sha256.Sum256([]byte("first"))}, *exists)
	}
	assert.Equal(t, "first", read(t, s, "t/1"))
}

// race makes many callers create one name at the same time, and returns their errors.
func race(t *testing.T, s objects.Store, name string, content func(caller int) string) []error {
	t.Helper()
	errs := make([]error, 16)
	var callers sync.WaitGroup
	for i := range errs {
		callers.Go(func() { errs[i] = s.Create(t.Context(), name, objects.Bytes([]byte(content(i)))) })
	}
	callers.Wait()
	return errs
}

func oneWins(t *testing.T, s objects.Store) {
	for round := range 4 {
		name := fmt.Sprintf("race/%d", round)
		errs := race(t, s, name, func(caller int) string { return fmt.Sprint(caller) })
		winner := slices.Index(errs, nil)
		require.GreaterOrEqual(t, winner, 0, "nobody won: %v", errs[0])
		for i, err := range errs {
			if i == winner {
				continue
			}
			exists, ok := errors.AsType[*objects.ExistsError](err)
			if assert.Truef(t, ok, "%d: %v", i, err) {
				assert.Equal(t, sha256.Sum256(fmt.Append(nil, winner)), exists.SHA256)
			}
		}
		assert.Equal(t, fmt.Sprint(winner), read(t, s, name))
	}
}

func repeatedByMany(t *testing.T, s objects.Store) {
	for _, err := range race(t, s, "same", func(int) string { return "same" }) {
		assert.NoError(t, err)
	}
	assert.Equal(t, "same", read(t, s, "same"))
}

func listed(t *testing.T, s objects.Store) {
	assert.Empty(t, names(t, s, "", ""))
	all := []string{"Z", "a-b/x", "a-b/y.z", "a.b", "a/0/s/1", "a/0/s/2", "a/0/term", "a/1/s/1", "a0", "b"}
	for _, i := range []int{3, 9, 0, 5, 1, 8, 2, 7, 4, 6} {
		create(t, s, all[i], "x")
	}
	assert.True(t, slices.IsSorted(all))
	for _, prefix := range []string{"", "a", "a/", "a/0", "a/0/s/", "a-", "a.b", "b/", "a/0/s/1", "zz", "a-b/y.z0"} {
		var want []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		assert.Equalf(t, want, names(t, s, prefix, ""), "prefix %q", prefix)
	}
	seen := 0
	for _, err := range s.List(t.Context(), "a", "") {
		require.NoError(t, err)
		if seen++; seen == 2 {
			break
		}
	}
	assert.Equal(t, 2, seen)
}

func listedAfter(t *testing.T, s objects.Store) {
	all := []string{"s/01", "s/02", "s/02.x", "s/02/y", "s/03", "s/10", "t"}
	all = slices.DeleteFunc(all, func(name string) bool { return name == "s/02" }) // s/02 is a directory
	for _, name := range all {
		create(t, s, name, "x")
	}
	for _, prefix := range []string{"", "s/", "s/0"} {
		for _, after := range []string{"", "a", "s", "s/", "s/01", "s/02", "s/02.x", "s/02/y", "s/02~", "s/05", "s/10", "s/~", "t", "z"} {
			var want []string
			for _, name := range all {
				if name > after && strings.HasPrefix(name, prefix) {
					want = append(want, name)
				}
			}
			assert.Equalf(t, want, names(t, s, prefix, after), "prefix %q, after %q", prefix, after)
		}
	}
}

func deleted(t *testing.T, s objects.Store) {
	require.NoError(t, s.Delete(t.Context(), "d/absent"))
	create(t, s, "d/1", "old")
	create(t, s, "d/2", "x")
	for range 2 {
		require.NoError(t, s.Delete(t.Context(), "d/1"))
		_, err := s.Get(t.Context(), "d/1")
		require.ErrorIs(t, err, objects.ErrNotThere)
	}
	assert.Equal(t, []string{"d/2"}, names(t, s, "d/", ""))
	create(t, s, "d/1", "new")
	assert.Equal(t, "new", read(t, s, "d/1"))
}

func badNames(t *testing.T, s objects.Store) {
	for _, name := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", ".drafts/x", "a\\b", "a b", "ä", "a\x00", strings.Repeat("a", 201)} {
		require.ErrorContainsf(t, s.Create(t.Context(), name, objects.Bytes(nil)), "no name", "%q", name)
		_, err := s.Get(t.Context(), name)
		require.ErrorContainsf(t, err, "no name", "%q", name)
		require.ErrorContainsf(t, s.Delete(t.Context(), name), "no name", "%q", name)
	}
}

func ended(t *testing.T, s objects.Store) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the process stops")
	cancel(cause)
	var errs []error
	errs = append(errs, s.Create(ctx, "a", objects.Bytes(nil)), s.Delete(ctx, "a"))
	_, err := s.Get(ctx, "a")
	errs = append(errs, err)
	for _, err := range s.List(ctx, "", "") {
		errs = append(errs, err)
	}
	require.Len(t, errs, 4)
	for i, err := range errs {
		require.ErrorIsf(t, err, cause, "call %d", i)
		assert.NotErrorIs(t, err, objects.ErrAway)
	}
}

// A content that does not have the hash of its body is never stored.
func damaged(t *testing.T, s objects.Store) {
	require.Error(t, s.Create(t.Context(), "a", damagedBody()))
	_, err := s.Get(t.Context(), "a")
	require.ErrorIs(t, err, objects.ErrNotThere)
	create(t, s, "a", "whole")
}

// damagedBody returns a body that changed after its hash was computed.
func damagedBody() objects.Body {
	body := objects.Bytes([]byte("whole"))
	body.From = bytes.NewReader([]byte("wrong"))
	return body
}
