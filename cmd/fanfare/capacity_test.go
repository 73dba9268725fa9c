package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/capacity"
)

func TestCapacityPrintsABill(t *testing.T) {
	t.Parallel()
	code, text, errs := result(t, nil, "fanfare", "capacity", "--users", "1e7", "--followers", "200", "--streams", "0.01")
	require.Zero(t, code, errs)
	for _, want := range []string{"table writes", "point-in-time recovery", "streams: idle", "other ways, by arithmetic", "one fanfare up", "prices: the oldest is of 20", "limit, table quota"} {
		assert.Contains(t, text, want)
	}
	code, text, errs = result(t, nil, "fanfare", "capacity", "--json", "--billing", "provisioned")
	require.Zero(t, code, errs)
	var e capacity.Estimate
	require.NoError(t, json.Unmarshal([]byte(text), &e))
	require.NotNil(t, e.Reservation)
	assert.Positive(t, e.Dollars)
	assert.Len(t, e.Lines, 10)
}

func TestCapacityTakesItsPricesFromAFile(t *testing.T) {
	t.Parallel()
	code, list, errs := result(t, nil, "fanfare", "capacity", "--print-prices")
	require.Zero(t, code, errs)
	price := func(text string) string {
		path := filepath.Join(t.TempDir(), "prices.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	_, before, _ := result(t, nil, "fanfare", "capacity")
	code, same, errs := result(t, nil, "fanfare", "capacity", "--prices", price(list))
	require.Zero(t, code, errs)
	assert.Equal(t, before, same, "the printed prices give the same bill")

	code, _, errs = result(t, nil, "fanfare", "capacity", "--prices", price(strings.ReplaceAll(list, `"date":"2026-`, `"date":"2001-`)))
	require.Zero(t, code, errs)
	assert.Contains(t, errs, "prices are more than a year old, the oldest of 2001-")
	code, _, errs = result(t, nil, "fanfare", "capacity", "--prices", price(strings.ReplaceAll(list, `"date":"2026-`, `"date":"9001-`)))
	require.Zero(t, code, errs)
	assert.Contains(t, errs, "is in the future")

	for name, tt := range map[string]struct {
		path string
		code int
		want string
	}{
		"no file":     {filepath.Join(t.TempDir(), "none"), 1, "--prices: open"},
		"no JSON":     {price("dear"), 2, "--prices"},
		"an old list": {price(`{"region":"us-east-1","prices":{}}`), 2, "prices.table_write: is missing"},
		"two faults":  {price(strings.Replace(list, `"us-east-1"`, `""`, 1)), 2, "region"},
	} {
		code, out, errs := result(t, nil, "fanfare", "capacity", "--prices", tt.path)
		assert.Equalf(t, tt.code, code, "%s: %s", name, errs)
		assert.Empty(t, out, name)
		assert.Contains(t, errs, tt.want, name)
	}
}

func TestCapacityRefusesBadInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"--users=-1", "--users: -1 is not from 1 to"},
		{"--users=NaN", "--users: NaN is no number"},
		{"--users=1e999", "--users"},
		{"--users=1e300", "--users: 1e+300 is not from 1 to"},
		{"--followers=2e6", "--followers: 2,000,000 followers need more than the 1,000,000 users"},
		{"--table-use=0.7", "--billing provisioned"},
		{"--endpoint=false", "--network nat"},
		{"--json --print-prices", "print-prices"},
		{"--billing=free --network=vpn", "--network"},
	} {
		code, out, errs := result(t, nil, "fanfare", append([]string{"capacity"}, strings.Fields(tt.args)...)...)
		assert.Equalf(t, 2, code, "%s: %s", tt.args, errs)
		assert.Empty(t, out, tt.args)
		assert.Contains(t, errs, tt.want, tt.args)
	}
}
