package sim

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/stormtest"
	"fanfare/internal/table"
)

// lying is a table that reports each put with an unknown outcome as done.
type lying struct{ table.Store }

func (l lying) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	res, err := l.Store.Put(ctx, in)
	if isUnavailable(err) {
		return res, nil
	}
	return res, err
}

// TestAFailingSeedIsShrunk breaks the aggregators' table, shrinks the first seeds that find the defect, and
// runs the printed commands.
func TestAFailingSeedIsShrunk(t *testing.T) {
	planted := Options{LikesTable: func(store table.Store) table.Store { return lying{store} }}
	fewest := defaultOperations
	for seed, found := uint64(1), 0; found < stormtest.Runs(2); seed++ {
		require.LessOrEqualf(t, seed, uint64(50), "%d of 50 seeds find the bug", found)
		res := Run(t, seed, planted)
		if !slices.Contains(res.Fails(), "I3") {
			continue
		}
		found++
		small := Shrink(t, planted, res, 100)
		t.Log(small)
		if small.Invariant != "I3" || small.Reruns > 100 {
			t.Errorf("seed %d: shrunk for %s in %d reruns", seed, small.Invariant, small.Reruns)
		}
		fewest = min(fewest, len(small.Options.Keep))

		again := planted
		again.KeepTrace = true
		var err error
		again.Keep, err = ParseKeep(FormatKeep(small.Options.Keep))
		require.NoError(t, err)
		again.Faults, err = ParseFaults(FormatFaults(small.Options.Faults))
		require.NoError(t, err)
		first, second := Run(t, seed, again), Run(t, seed, again)
		if !slices.Contains(first.Fails(), "I3") {
			t.Errorf("seed %d: the shrunk run violates %q, not I3", seed, first.Fails())
		}
		if first.Trace != small.Result.Trace || strings.Join(first.Lines, "\n") != strings.Join(second.Lines, "\n") {
			t.Errorf("seed %d: the shrunk run does not replay", seed)
		}
		for _, line := range first.Lines {
			if _, op, ok := strings.Cut(line, " start op"); ok {
				number, _, _ := strings.Cut(op, " ")
				if strings.HasPrefix(number, "0-") { // an operation of the world itself
					continue
				}
				if n, err := ParseKeep(number); err != nil || !slices.Contains(again.Keep, n[0]%lifeOps%noticeOps%readOps) {
					t.Errorf("seed %d: operation %s is not kept, and was made", seed, number)
				}
			}
		}
	}
	assert.LessOrEqualf(t, fewest, defaultOperations/4,
		"the smallest of the shrunk runs keeps %d of %d operations", fewest, defaultOperations)
}

// TestAnOperationIsTheSameWithoutOthers checks that the draws of an operation do not depend on other
// operations.
func TestAnOperationIsTheSameWithoutOthers(t *testing.T) {
	started := func(o Options) map[string]string {
		of := map[string]string{}
		for _, line := range Run(t, 7, o).Lines {
			if _, op, ok := strings.Cut(line, " start op"); ok {
				number, what, _ := strings.Cut(op, " ")
				words := strings.Fields(what) // user, operation, object of the operation
				of[number] = words[0] + " " + words[1]
				switch n, err := strconv.Atoi(number); {
				case words[1] == "follow" || words[1] == "unfollow":
					of[number] += " " + words[2]
				case err == nil && n >= repostOps && words[1] == "delete": // the end of a repost that is there, as a post
					of[number] = words[0] + " unrepost"
				}
			}
		}
		return of
	}
	all := started(Options{Plain: true, KeepTrace: true})
	var odd []int
	for n := 1; n < defaultOperations; n += 2 {
		odd = append(odd, n)
	}
	half := started(Options{Plain: true, KeepTrace: true, Keep: odd, Faults: []string{FaultLost}})
	same := 0
	for number, is := range half {
		switch was := all[number]; {
		case was == is:
			same++
		// An operation for which no post exists reads a home instead.
		case !strings.HasSuffix(is, " home") && !strings.HasSuffix(was, " home"):
			t.Errorf("operation %s is %q, and %q without others", number, was, is)
		}
	}
	assert.GreaterOrEqualf(t, same, 80, "%d of 100 operations are the same", same)
}

func TestKeepAndFaultsAreReadAsTheyAreWritten(t *testing.T) {
	for text, keep := range map[string][]int{"none": {}, "7": {7}, "1-3,9,11-12": {1, 2, 3, 9, 11, 12}} {
		got, err := ParseKeep(text)
		if err != nil || got == nil || !slices.Equal(got, keep) || FormatKeep(keep) != text {
			t.Errorf("%q is read as %v, %v, and written as %q", text, got, err, FormatKeep(keep))
		}
	}
	if all, err := ParseKeep(""); all != nil || err != nil {
		t.Errorf("no value keeps %v, %v, want all", all, err)
	}
	for _, text := range []string{"x", "1-", "1,,2"} {
		got, err := ParseKeep(text)
		assert.Errorf(t, err, "%q is read as %v", text, got)
	}
	kinds, err := ParseFaults(FormatFaults([]string{FaultLost, FaultCrash}))
	assert.NoError(t, err)
	assert.Equal(t, []string{FaultLost, FaultCrash}, kinds)
	if none, err := ParseFaults(FormatFaults(nil)); err != nil || none == nil || len(none) > 0 {
		t.Errorf("no faults are read as %v, %v", none, err)
	}
	got, err := ParseFaults("no such fault")
	assert.Errorf(t, err, "read %v", got)
}
