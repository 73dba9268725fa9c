package apitest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exportRows read the records of ann and ben after all other rows.
func exportRows(target Target) []row {
	const path = "/v1/me/export"
	whole := func(wanted ...string) func(t *testing.T, res *response) {
		return func(t *testing.T, res *response) {
			t.Helper()
			require.True(t, strings.HasSuffix(string(res.raw), "\n"))
			lines := strings.Split(strings.TrimSuffix(string(res.raw), "\n"), "\n")
			var kinds []string
			for i, line := range lines {
				var record struct {
					Type    string
					Records *int
				}
				require.NoError(t, json.Unmarshal([]byte(line), &record), line)
				kinds = append(kinds, record.Type)
				if record.Type == "end" {
					assert.Equal(t, len(lines)-1, i, "the last line")
					assert.Equal(t, &i, record.Records)
				}
			}
			for _, kind := range append(wanted, "user", "end") {
				assert.Equal(t, kind != "like" || target.LikesByUser, slices.Contains(kinds, kind), kind)
			}
		}
	}
	return []row{
		{name: "export", as: "ann", method: "GET", path: path, status: 200, check: whole("follow", "post")},
		{name: "export of another", as: "ben", method: "GET", path: path, status: 200, check: whole("follow", "like")},
		{name: "export, its head", as: "ann", method: "HEAD", path: path, status: 200},
		bad("export without a profile", "new", "GET", path, "", 409, "profile-missing"),
		bad("export without a token", "", "GET", path, "", 401, "unauthenticated"),
		{name: "export by a service", as: "deleter", method: "GET", path: path, header: headers("Fanfare-User", "{ann}"), status: 403, problem: "forbidden"},
		bad("export, wrong method", "ann", "POST", path, "{}", 405, "method-not-allowed"),
	}
}
