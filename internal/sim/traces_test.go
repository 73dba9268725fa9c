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

// TestTracesForTheSpecs writes traces of likes and of homes, as a TLA+ module for each model, with
// the sizes that the traces need. scripts/spec.sh runs TLC on the modules.
func TestTracesForTheSpecs(t *testing.T) {
	traces := map[string][]string{}
	for seed := *from; len(traces["Kinds"]) < *traceCount || len(traces["Homes"]) < *traceCount; seed++ {
		require.Less(t, seed, *from+uint64(20**traceCount), "few seeds have a trace")
		for model, trace := range Run(t, seed, Options{Traces: true}).Traces {
			if trace != "" && len(traces[model]) < *traceCount {
				traces[model] = append(traces[model], fmt.Sprintf("\\* seed %d\n%s", seed, trace))
			}
		}
	}
	likes, homes := traceModule(traces["Kinds"]), traceModule(traces["Homes"])
	require.Contains(t, likes, `e |-> "flush"`)
	require.Contains(t, homes, `e |-> "follow"`)
	if *tracesTo == "" {
		return
	}
	writeTraces(t, "Kinds", likes, fmt.Sprintf("U=%s\nA=%s\nW=%s\nVersions=%d\nIncs=%d\n", upTo(most(t, likes, "u")), upTo(most(t, likes, "i")),
		upTo(most(t, likes, "w")), most(t, likes, "v"), most(t, likes, "i")))
	ids := max(most(t, homes, "p"), most(t, homes, "since"), most(t, homes, "from"))
	writeTraces(t, "Homes", homes, fmt.Sprintf("NP=%d\nOps=%d\n", ids, mostHomeLines))
}

func writeTraces(t *testing.T, model, module, sizes string) {
	t.Helper()
	dir := filepath.Join(*tracesTo, model)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "TraceData.tla"), []byte(module), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sizes"), []byte(sizes), 0o600))
}

func traceModule(traces []string) string {
	return "---- MODULE TraceData ----\nEXTENDS Integers, Sequences\nTraces == <<\n" + strings.Join(traces, ",\n") + "\n>>\n====\n"
}

// most returns the highest number that a field has in the traces.
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
