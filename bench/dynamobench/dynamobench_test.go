package dynamobench_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fanfare/bench/dynamobench"
	"fanfare/bench/standin"
)

// TestMain also runs the stand-in, because the test binary serves as the stand-in's program.
func TestMain(m *testing.M) {
	if standin.Asked() {
		if err := standin.Main(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

func spawn(tb testing.TB, followers int) string {
	tb.Helper()
	p, err := standin.Spawn(tb.Context(), []string{os.Args[0]}, standin.Options{Followers: followers})
	require.NoError(tb, err)
	tb.Cleanup(p.Stop)
	return p.URL
}

// The worker and the loop deliver to every follower, in one page or in many chunks.
func TestBothWaysDeliverToAll(t *testing.T) {
	for _, followers := range []int{1, 700, 9_001} {
		res, err := dynamobench.Measure(t.Context(), dynamobench.Options{
			Endpoint: spawn(t, followers), Followers: followers, Posts: 2, Settings: []int{4}, Workers: []dynamobench.Setting{{Chunks: 3, Writers: 2}},
		})
		require.NoError(t, err)
		if res.Ours.Deliveries != int64(2*followers) || res.Plain.Deliveries != int64(followers) {
			t.Errorf("%d followers: the worker wrote %d entries for 2 posts, the loop %d for 1",
				followers, res.Ours.Deliveries, res.Plain.Deliveries)
		}
	}
}

// BenchmarkDelivery is benchmark T3. The flags -bench Ours -cpuprofile show the CPU profile.
func BenchmarkDelivery(b *testing.B) {
	const followers = 200_000
	endpoint := spawn(b, followers)
	o := dynamobench.Options{Endpoint: endpoint, Followers: followers, Posts: 3}
	for _, setting := range []dynamobench.Setting{{Chunks: 2, Writers: 1}, {Chunks: 16, Writers: 8}} {
		b.Run(fmt.Sprintf("Ours-%d-%d", setting.Chunks, setting.Writers), func(b *testing.B) {
			report(b, func() (dynamobench.Run, error) { return dynamobench.Ours(b.Context(), o, setting) })
		})
	}
	for _, setting := range []int{8, 32, 128} {
		b.Run(fmt.Sprintf("Plain-%d", setting), func(b *testing.B) {
			report(b, func() (dynamobench.Run, error) { return dynamobench.Plain(b.Context(), o, setting) })
		})
	}
}

func report(b *testing.B, measure func() (dynamobench.Run, error)) {
	b.Helper()
	for b.Loop() {
		run, err := measure()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(run.PerCPUSecond(), "deliveries/CPU-s")
		b.Log(run)
	}
}
