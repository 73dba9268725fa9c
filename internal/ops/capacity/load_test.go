package capacity

import (
	"encoding/json"
	"flag"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parsed reads a command line into a load and a deployment, and checks them.
func parsed(args ...string) (Load, Deployment, error) {
	l, d := DefaultLoad(), DefaultDeployment()
	f := flag.NewFlagSet("capacity", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	for _, s := range append(l.Settings(), d.Settings()...) {
		f.Float64Var(s.Value, s.Name, *s.Value, s.Usage)
	}
	f.StringVar(&d.Billing, "billing", d.Billing, "")
	f.StringVar(&d.Network, "network", d.Network, "")
	f.BoolVar(&d.Endpoint, "endpoint", d.Endpoint, "")
	if err := f.Parse(args); err != nil {
		return l, d, err
	}
	given := map[string]bool{}
	f.Visit(func(one *flag.Flag) { given[one.Name] = true })
	d.Given(func(name string) bool { return given[name] })
	if err := l.Check(); err != nil {
		return l, d, err
	}
	return l, d, d.Check()
}

// The flags for numbers refuse the same kinds of values, and accept both of their bounds.
func TestEachNumberHasItsBounds(t *testing.T) {
	t.Parallel()
	l, d := DefaultLoad(), DefaultDeployment()
	for _, s := range append(l.Settings(), d.Settings()...) {
		assert.Lessf(t, s.least, s.most, "the tag of %s", s.Name)
		for _, bad := range []string{"NaN", "Inf", "-Inf", "-1", "1e300", "1e999", "x", "", "1,5"} {
			_, _, err := parsed("--" + s.Name + "=" + bad)
			assert.ErrorContainsf(t, err, "-"+s.Name, "--%s=%s", s.Name, bad)
		}
		for _, v := range []float64{s.least, s.most} {
			*s.Value = v
		}
		assert.Empty(t, checkAll([]Setting{s}), s.Name)
		*s.Value = math.Nextafter(s.least, -1)
		assert.NotEmpty(t, checkAll([]Setting{s}), s.Name)
		*s.Value = math.Nextafter(s.most, math.Inf(1))
		assert.NotEmpty(t, checkAll([]Setting{s}), s.Name)
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--users=10", "--followers=10"}, "--followers: 10 followers need more than the 10 users"},
		{[]string{"--users=1000", "--followers=10", "--largest-author=1000"}, "--largest-author: 1,000 followers need more"},
		{[]string{"--largest-author=99"}, "--largest-author: the author with most followers cannot have fewer than the 100"},
		{[]string{"--billing=free"}, `--billing: "free" is neither on-demand nor provisioned`},
		{[]string{"--network=vpn"}, `--network: "vpn" is neither addresses nor nat`},
		{[]string{"--table-use=0.7"}, "--table-use and --table-use-reads are for --billing provisioned"},
		{[]string{"--table-use-reads=0.52"}, "--table-use and --table-use-reads are for --billing provisioned"},
		{[]string{"--reserved-wcu=0"}, "--reserved-wcu and --reserved-rcu are for --billing provisioned"},
		{[]string{"--reserved-rcu=100"}, "--reserved-wcu and --reserved-rcu are for --billing provisioned"},
		{[]string{"--billing=provisioned", "--max-write=1000"}, "--max-write and --max-read are for --billing on-demand"},
		{[]string{"--endpoint=false"}, "--endpoint=false is for --network nat"},
	} {
		_, _, err := parsed(tt.args...)
		assert.ErrorContainsf(t, err, tt.want, "%v", tt.args)
	}
	for _, args := range [][]string{
		nil, {"--billing=provisioned", "--table-use=0.7", "--reserved-wcu=100"}, {"--network=nat", "--endpoint=false"}, {"--max-write=1000"},
		{"--users=101", "--followers=100"}, {"--users=1e6", "--largest-author=999999"},
	} {
		_, _, err := parsed(args...)
		assert.NoErrorf(t, err, "%v", args)
	}
}

// With the maximum values of the flags, all results are finite numbers, which JSON can represent.
func TestTheLargestLoadHasABill(t *testing.T) {
	t.Parallel()
	l, d := DefaultLoad(), DefaultDeployment()
	for _, s := range append(l.Settings(), d.Settings()...) {
		*s.Value = s.most
	}
	l.PulledPosts, l.Utilisation, l.RequestsPerCPU = 1e-9, 0.01, 1
	for _, billing := range []string{OnDemand, Provisioned} {
		d.Billing = billing
		_, err := json.Marshal(New(l, d, listed(t)))
		require.NoError(t, err)
	}
	for _, s := range append(l.Settings(), d.Settings()...) {
		*s.Value = s.least
	}
	_, err := json.Marshal(New(l, d, listed(t)))
	require.NoError(t, err)
}
