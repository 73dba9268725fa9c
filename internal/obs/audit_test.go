package obs_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"fanfare/internal/obs"
)

// A finding shows at once, and stays until a whole round has passed without the finding.
func TestFindingsShowUntilARoundIsWithoutThem(t *testing.T) {
	reg := prometheus.NewRegistry()
	a, err := obs.NewAudit(reg, []string{"x", "y"})
	require.NoError(t, err)
	shows := func(x, y float64) {
		t.Helper()
		families, err := reg.Gather()
		require.NoError(t, err)
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "fanfare_audit_findings" {
					got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		require.Equal(t, map[string]float64{"x": x, "y": y}, got)
	}
	shows(0, 0)
	a.Found("x")
	a.Found("x")
	shows(2, 0)
	a.Ended(time.Unix(1, 0))
	shows(2, 0)
	a.Found("y")
	a.Found("x")
	shows(2, 1)
	a.Ended(time.Unix(2, 0))
	shows(1, 1)
	a.Ended(time.Unix(3, 0))
	shows(0, 0)
}
