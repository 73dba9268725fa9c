package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/objects"
)

func examineArchive(t *testing.T, dir string) Finding {
	t.Helper()
	cfg, err := config.Load([]string{"FANFARE_DATA_DIR=" + t.TempDir(), "FANFARE_ARCHIVE=file://" + dir}, config.API)
	require.NoError(t, err)
	found := Examine(t.Context(), cfg, nil, daemon.Roles{}, time.Now)
	i := slices.IndexFunc(found, func(f Finding) bool { return f.Check == "archive" })
	require.GreaterOrEqual(t, i, 0)
	return found[i]
}

func TestDoctorTriesEachCallOfAnArchive(t *testing.T) {
	dir := t.TempDir()
	found := examineArchive(t, dir)
	assert.Equal(t, LevelOK, found.Level, found.Says)
	left, err := filepath.Glob(filepath.Join(dir, "doctor", "*"))
	require.NoError(t, err)
	assert.Empty(t, left)

	require.NoError(t, os.RemoveAll(dir))
	found = examineArchive(t, dir)
	assert.Equal(t, LevelFault, found.Level)
	assert.Contains(t, found.Mend, "mount its disk")
}

// careless is a store that overwrites objects.
type careless struct{ objects.Store }

// Create implements objects.Store.
func (c careless) Create(ctx context.Context, name string, body objects.Body) error {
	return errors.Join(c.Delete(ctx, name), c.Store.Create(ctx, name, body))
}

func TestDoctorFindsAStoreThatOverwrites(t *testing.T) {
	at, err := objects.Parse("file://" + t.TempDir())
	require.NoError(t, err)
	store, err := at.Open(t.Context())
	require.NoError(t, err)
	require.NoError(t, tryStore(t.Context(), store))
	err = tryStore(t.Context(), careless{store})
	require.ErrorIs(t, err, errOverwrites)
	assert.ErrorContains(t, err, "If-None-Match")
}
