package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/replay"
)

func TestEachHomeIsExactWhenReadersComeAndGo(t *testing.T) {
	h := powerLaw(150, 40)
	e := &env{Config: Config{Progress: io.Discard}, id: "T15"}
	l, err := e.live(t.Context(), h)
	require.NoError(t, err)
	assert.Positive(t, l.writes[flowRefresh])
	assert.Positive(t, l.writes[flowReturn])
	assert.Less(t, l.entries, l.promised, "nobody was skipped")
	exact, err := l.compare(t.Context(), h)
	require.NoError(t, err)
	assert.Zero(t, exact.wrong)
	assert.Positive(t, exact.posts)
	assert.Positive(t, exact.returned)
}

func TestAHistoryIsReadFromFiles(t *testing.T) {
	read := func(trace string) ([]activity, error) {
		file := filepath.Join(t.TempDir(), "trace")
		require.NoError(t, os.WriteFile(file, []byte(trace), 0o600))
		return readTrace(file, &replay.Graph{Names: []string{"ann", "bob"}})
	}
	acts, err := read("# user time\nbob 1341100972\n\nann 1341100900\nstranger 1341100901\n")
	require.NoError(t, err)
	require.Len(t, acts, 2)
	assert.Equal(t, []int{0, 1}, []int{acts[0].user, acts[1].user})
	assert.Equal(t, int64(1341100972), acts[1].at.Unix())
	for _, bad := range []string{"ann", "ann noon", "ann 1 2", "stranger 1"} {
		_, err := read(bad)
		assert.Error(t, err, bad)
	}
}

func TestTheFilesOfAHistoryGoTogether(t *testing.T) {
	var stderr strings.Builder
	assert.Equal(t, 2, run([]string{"--only", "T15", "--graph", "x"}, nil, io.Discard, &stderr))
	assert.Contains(t, stderr.String(), "trace")
}
