package transfer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
)

// No line makes parse panic. If a parsed record is written as a line, the line is parsed to the same record.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`{"type":"user","id":"ann","name":"Ann","bio":"x","image_url":"https://a.example/b","time":"2016-12-31t23:59:60z"}`,
		`{"type":"follow","follower_id":"bob","author_id":"ann","from":"01JD8QJ4WZ0000000000000001","time":"2024-02-01T08:30:00.250+01:00"}`,
		`{"type":"post","id":"4711","author_id":"ann","text":"\ud83d\ude00","time":"2024-02-02T10:00:00Z","edited_at":"2024-02-02T10:00:00.1234567891Z"}`,
		`{"type":"comment","id":"99","post_id":"4711","author_id":"bob","text":"\ud83d","time":"2024-02-02T10:05:00Z"}`,
		`{"type":"block","user_id":"ann","other_id":"dan","time":"2024-02-01T09:01:00Z"}`, `{"type":"like","post_id":"4711","post_id":"4711","user_id":"bob","time":null}`, `[]`, "\ufeff{}",
		`{"type":"post","id":"4711","author_id":"ann","images":[{"url":"https://x.example/","alt":"\u2028","width":1,"height":2},{"url":"https://x.example/"}],"time":"2024-02-02T10:00:00Z"}`,
		`{"type":"post","id":"4711","author_id":"ann","text":"a","images":[],"time":"2024-02-02T10:00:00Z"}`, `{"type":"post","id":"4711","author_id":"ann","images":[{"url":"https://x.example/","alt":null,"x":1}],"time":"2024-02-02T10:00:00Z"}`,
	} {
		f.Add([]byte(line))
	}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, line []byte) {
		read, faults := parse(line, now)
		if len(faults) > 0 {
			return
		}
		var out strings.Builder
		require.NoError(t, writeRecord(&out, read))
		again, faults := parse([]byte(strings.TrimSuffix(out.String(), "\n")), now)
		require.Emptyf(t, faults, "%q became %q", line, out.String())
		require.Emptyf(t, cmp.Diff(read, again, cmpopts.EquateEmpty()), "%q became %q", line, out.String())
	})
}
