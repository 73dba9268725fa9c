package archive_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
)

func TestVerifyNamesDamagedAndMissingObjects(t *testing.T) {
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		for range 2 {
			sleep(5 * time.Minute)
			o.write(20)
			o.drop(o.end() - 5)
			sleep(5 * time.Minute)
		}
		o.stop()
		o.office(t, store, start("node", tapeAt(o.end())))
		sleep(5 * time.Minute)
		sound(t, o.archive)
		all := bases(t, o.archive)
		base := archive.BaseName(all[0].Term, all[0].First)
		file := archive.FileName(all[0].Files[1].SHA256)
		mark := names(t, store, "g/")[0]
		segments := names(t, store, "t/0000000000000001/s/")
		seal := segments[len(segments)-1]
		for name, damage := range map[string]string{
			file: "damaged", segmentName(1, 3): "is damaged", base: "is damaged", "t/0000000000000001/term.json": "is damaged",
		} {
			harm(t, store, o.archive, name, []byte("other bytes"), archive.Fault{Object: name, Fault: damage})
		}
		for name, damage := range map[string]string{
			file: "missing: b/", segmentName(1, 3): "missing", mark: "missing", seal: "without a seal", "t/0000000000000001/term.json": "missing: b/",
		} {
			harm(t, store, o.archive, name, nil, archive.Fault{Object: name, Fault: damage})
		}
		harm(t, store, o.archive, segmentName(1, 1), nil, archive.Fault{Object: segmentName(1, all[0].First), Fault: "needs the segments"})
	})
}

// harm replaces or deletes an object, expects a fault, and mends the object.
func harm(t *testing.T, store objects.Store, a *archive.Archive, name string, content []byte, want archive.Fault) {
	t.Helper()
	whole, err := objects.Read(t.Context(), store, name, 1<<20)
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), name))
	if content != nil {
		require.NoError(t, store.Create(t.Context(), name, objects.Bytes(content)))
	}
	found, err := a.Verify(t.Context(), func(done, total int64) { assert.LessOrEqual(t, done, total) })
	require.NoError(t, err)
	named := false
	for _, f := range found.Faults {
		if f.Object == want.Object {
			named = true
			assert.Contains(t, f.Fault, want.Fault)
		}
	}
	assert.Truef(t, named, "%s: %v", name, found.Faults)
	require.NoError(t, store.Delete(t.Context(), name))
	require.NoError(t, store.Create(t.Context(), name, objects.Bytes(whole)))
}
