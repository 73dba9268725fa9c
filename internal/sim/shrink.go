package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Shrunk is a smaller run of a seed that still fails the same invariant.
type Shrunk struct {
	Options Options
	Result  Result
	// Invariant is the invariant that the smaller run still fails.
	Invariant string
	// Reruns is the number of runs in the search.
	Reruns int
}

// Shrink runs a failing seed again with fewer operations of users and fewer kinds of fault. most is
// the maximum number of these runs. Shrink keeps the smallest run that still fails the invariant
// that res failed first. Shrink also draws the operations that it leaves out, so the kept
// operations are the same in each run.
func Shrink(t *testing.T, o Options, res Result, most int) Shrunk {
	t.Helper()
	best := Shrunk{Options: o, Result: res, Invariant: res.Fails()[0]}
	if best.Options.Operations == 0 {
		best.Options.Operations = res.Shape.Operations
	}
	best.Options.KeepTrace = false
	if best.Options.Keep == nil {
		for n := range best.Options.Operations {
			best.Options.Keep = append(best.Options.Keep, n+1)
		}
	}
	if best.Options.Faults == nil {
		best.Options.Faults = Faults()
	}
	try := func(smaller Options) bool {
		if best.Reruns == most {
			return false
		}
		best.Reruns++
		res := Run(t, best.Result.Seed, smaller)
		if !slices.Contains(res.Fails(), best.Invariant) {
			return false
		}
		best.Options, best.Result = smaller, res
		return true
	}
	tryFaults := func(faults []string) bool {
		smaller := best.Options
		smaller.Faults = faults
		return try(smaller)
	}
	tryKeep := func(keep []int) bool {
		smaller := best.Options
		smaller.Keep = append([]int{}, keep...) // nil means all operations
		return try(smaller)
	}
	for before := -1; before != best.size() && best.Reruns < most; {
		before = best.size()
		// The search leaves out whole kinds first, then whole users: most defects need few kinds and
		// few users.
		for _, of := range []func(n int) string{
			func(n int) string { _, kind := res.Shape.drawn(res.Seed, n); return kind },
			func(n int) string { user, _ := res.Shape.drawn(res.Seed, n); return strconv.Itoa(user) },
		} {
			minimize(grouped(best.Options.Keep, of), func(left [][]int) bool {
				return tryKeep(slices.Sorted(slices.Values(slices.Concat(left...))))
			})
		}
		minimize(best.Options.Faults, tryFaults)
		minimize(best.Options.Keep, tryKeep)
	}
	return best
}

func (s Shrunk) size() int { return len(s.Options.Keep) + len(s.Options.Faults) }

// String returns the size of the run, and the command for exactly this run.
func (s Shrunk) String() string {
	return fmt.Sprintf("seed %d shrunk in %d reruns to %d of %d operations and %d of %d kinds of fault, and still violates %s:\n"+
		"  go test ./internal/sim -run TestSeeds -from %d -seeds 1%s -keep %s -faults %q -trail",
		s.Result.Seed, s.Reruns, len(s.Options.Keep), s.Options.Operations, len(s.Options.Faults), len(Faults()), s.Invariant,
		s.Result.Seed, s.Options.flags(), FormatKeep(s.Options.Keep), FormatFaults(s.Options.Faults))
}

// minimize is ddmin of Zeller and Hildebrandt: it leaves out smaller and smaller parts, and
// continues with each remainder that still fails.
func minimize[T any](all []T, fails func([]T) bool) {
	if len(all) == 0 || fails([]T{}) {
		return
	}
	for parts := 2; len(all) > 1; {
		size := (len(all) + parts - 1) / parts
		cut := false
		for from := 0; from < len(all); from += size {
			rest := slices.Concat(all[:from], all[min(from+size, len(all)):])
			if len(rest) > 0 && fails(rest) {
				all, cut = rest, true
				parts = max(parts-1, 2)
				break
			}
		}
		switch {
		case cut:
		case size == 1:
			return
		default:
			parts = min(2*parts, len(all))
		}
	}
}

// grouped returns the numbers in groups with equal names.
func grouped(numbers []int, name func(int) string) [][]int {
	groups := map[string][]int{}
	for _, n := range numbers {
		groups[name(n)] = append(groups[name(n)], n)
	}
	var all [][]int
	for _, called := range sorted(groups) {
		all = append(all, groups[called])
	}
	return all
}

// FormatKeep writes numbers of operations as a flag's value: "1-4,9", or "none".
func FormatKeep(keep []int) string {
	if len(keep) == 0 {
		return "none"
	}
	keep = slices.Sorted(slices.Values(keep))
	var parts []string
	for i := 0; i < len(keep); {
		end := i
		for end+1 < len(keep) && keep[end+1] == keep[end]+1 {
			end++
		}
		part := strconv.Itoa(keep[i])
		if end > i {
			part += "-" + strconv.Itoa(keep[end])
		}
		parts, i = append(parts, part), end+1
	}
	return strings.Join(parts, ",")
}

// ParseKeep parses the output of FormatKeep. It returns nil, which means all operations, for "".
func ParseKeep(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	keep := []int{}
	if text == "none" {
		return keep, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			return nil, fmt.Errorf("operations to keep: %w", err)
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(high); err != nil {
				return nil, fmt.Errorf("operations to keep: %w", err)
			}
		}
		for n := first; n <= last; n++ {
			keep = append(keep, n)
		}
	}
	return keep, nil
}

// FormatFaults writes kinds of fault as a flag's value, or "none".
func FormatFaults(kinds []string) string {
	if len(kinds) == 0 {
		return "none"
	}
	return strings.Join(kinds, ",")
}

// ParseFaults parses the output of FormatFaults. It returns nil, which means all kinds, for "".
func ParseFaults(text string) ([]string, error) {
	switch text {
	case "":
		return nil, nil
	case "none":
		return []string{}, nil
	}
	kinds := strings.Split(text, ",")
	for _, kind := range kinds {
		if !slices.Contains(Faults(), kind) {
			return nil, fmt.Errorf("there is no fault %q", kind)
		}
	}
	return kinds, nil
}
