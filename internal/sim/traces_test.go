package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	traceCount = flag.Int("traces", 3, "how many traces to write into -traces-to")
	tracesTo   = flag.String("traces-to", "", "the folder of the traces and of their sizes; none writes none")
)

// TestTracesForTheSpecs writes traces of likes as a module of TLA+, with the sizes that they need. scripts/spec.sh
// runs TLC on it.
func TestTracesForTheSpecs(t *testing.T) {
	var traces []string
	for seed := *from; len(traces) < *traceCount; seed++ {
		require.Less(t, seed, *from+uint64(20**traceCount), "few seeds have a trace")
		if trace := Run(t, seed, Options{Traces: true}).LikesTrace; trace != "" {
			traces = append(traces, fmt.Sprintf("\\* seed %d\n%s", seed, trace))
		}
	}
	module := traceModule(traces)
	require.Contains(t, module, `e |-> "flush"`)
	if *tracesTo == "" {
		return
	}
	sizes := fmt.Sprintf("U=%s\nA=%s\nW=%s\nVersions=%d\nIncs=%d\n", upTo(most(t, module, "u")), upTo(most(t, module, "i")), upTo(most(t, module, "w")),
		most(t, module, "v"), most(t, module, "i"))
	dir := filepath.Join(*tracesTo, "Kinds")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "TraceData.tla"), []byte(module), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sizes"), []byte(sizes), 0o600))
}

func traceModule(traces []string) string {
	return "---- MODULE TraceData ----\nEXTENDS Integers, Sequences\nTraces == <<\n" + strings.Join(traces, ",\n") + "\n>>\n====\n"
}

// most returns the highest number that a field has in some traces.
func most(t *testing.T, traces, field string) int {
	t.Helper()
	most := 1
	for _, m := range regexp.MustCompile(`\b`+field+` \|-> (\d+)`).FindAllStringSubmatch(traces, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		most = max(most, n)
	}
	return most
}

// upTo returns the set of the numbers from 1 to n.
func upTo(n int) string {
	set := make([]string, n)
	for i := range set {
		set[i] = strconv.Itoa(i + 1)
	}
	return "{" + strings.Join(set, ",") + "}"
}
