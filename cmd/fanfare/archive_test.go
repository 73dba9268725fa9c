package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/archive"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// archived makes an archive with one term of ten segments, a gap before the seventh of them, and a base.
func archived(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	store, err := objects.Location{Dir: dir}.Open(t.Context())
	require.NoError(t, err)
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	a, err := archive.New(store, func() time.Time { return noon })
	require.NoError(t, err)
	place := func(n uint64) stream.Position {
		return stream.Position{Queue: stream.Place{Log: 2, Offset: n}, Table: stream.Place{Log: 3, Offset: n}}
	}
	term, err := a.Take(t.Context(), archive.Start{Lineage: "lineage", Node: "node", At: place(0), Version: "v0.2.0", DataFormat: 2, Nonce: "nonce", Keep: func() error { return nil }, Asked: func(string) bool { return false }})
	require.NoError(t, err)
	for w := a.Writer(term); w.Next() <= 10; {
		n := w.Next()
		at := noon.Add(time.Duration(n) * time.Minute)
		require.NoError(t, w.Put(t.Context(), archive.Segment{
			Header: archive.Header{First: at, Last: at, Start: place(n - 1), End: place(n), Gap: n == 7}, Frames: []byte("frames"),
		}))
	}
	content := objects.Bytes([]byte("content"))
	sum := fmt.Sprintf("%x", content.SHA256)
	require.NoError(t, store.Create(t.Context(), archive.FileName(sum), content))
	text, err := archive.Base{
		DataFormat: 2, MadeAt: noon.Add(2 * time.Minute), Version: "v0.2.0", Lineage: "lineage", Term: 1, First: 2,
		From: archive.Position(place(1)), To: archive.Position(place(2)), Files: []archive.File{{Name: "dev-secret", Bytes: 7, SHA256: sum}},
	}.Encode()
	require.NoError(t, err)
	require.NoError(t, store.Create(t.Context(), archive.BaseName(1, 2), objects.Bytes(text)))
	return dir
}

func TestTheArchiveIsListed(t *testing.T) {
	t.Parallel()
	address := "file://" + archived(t)
	code, out, errs := result(t, []string{"FANFARE_ARCHIVE=" + address}, "fanfare", "archive", "ls")
	require.Zerof(t, code, "%s", errs)
	for _, want := range []string{"v0.2.0", "2026-11-26T12:02:00.000Z", "2026-11-26T12:05:59.999Z"} {
		assert.Contains(t, out, want)
	}
	code, out, errs = result(t, nil, "fanfare", "archive", "ls", "--json", "--from", address)
	require.Zerof(t, code, "%s", errs)
	var list struct {
		Terms, Bases []map[string]any
		Lines        []archive.Line
	}
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	assert.Len(t, list.Terms, 1)
	assert.EqualValues(t, 7, list.Bases[0]["bytes"])
	require.Len(t, list.Lines, 1)
	require.Len(t, list.Lines[0].Ranges, 1)
	assert.Equal(t, 4*time.Minute-time.Millisecond, list.Lines[0].Ranges[0].To.Sub(list.Lines[0].Ranges[0].From))
}

func TestTheGapsOfTheArchiveAreListed(t *testing.T) {
	t.Parallel()
	address := "file://" + archived(t)
	code, out, errs := result(t, nil, "fanfare", "archive", "gaps", "--from", address)
	require.Zerof(t, code, "%s", errs)
	assert.Equal(t, "TERM  FROM                      TO\n1     2026-11-26T12:06:00.000Z  -\n", out)
	code, out, _ = result(t, nil, "fanfare", "archive", "gaps", "--from", address, "--json")
	assert.Zero(t, code)
	assert.JSONEq(t, `{"restorable":true,"gaps":[{"term":1,"from":"2026-11-26T12:06:00Z"}]}`, out)
	code, out, _ = result(t, nil, "fanfare", "archive", "gaps", "--from", "file://"+t.TempDir())
	assert.Zero(t, code)
	assert.Contains(t, out, "no base yet")
}

func TestTheArchiveIsVerified(t *testing.T) {
	t.Parallel()
	dir := archived(t)
	address := "file://" + dir
	code, out, errs := result(t, nil, "fanfare", "archive", "verify", "--from", address)
	require.Zerof(t, code, "%s%s", out, errs)
	assert.Contains(t, out, "read 14 objects")
	files, err := filepath.Glob(filepath.Join(dir, "f", "*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], []byte("c0ntent"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "t", strings.Repeat("0", 15)+"1", "s", strings.Repeat("0", 11)+"5")))
	code, out, errs = result(t, nil, "fanfare", "archive", "verify", "--from", address, "--json")
	assert.Equal(t, 1, code)
	var found archive.Findings
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.Len(t, found.Faults, 2)
	assert.Contains(t, found.Faults[0].Object, "/s/000000000005")
	assert.Contains(t, found.Faults[1].Fault, "damaged")
	assert.Contains(t, errs, "2 objects of the archive are damaged or missing")
}

func TestAnArchiveThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	for code, args := range map[int][]string{2: {"archive", "ls"}, 1: {"archive", "ls", "--from", "file:///absent/" + t.Name()}} {
		got, _, errs := result(t, nil, "fanfare", args...)
		assert.Equal(t, code, got, errs)
		assert.Equal(t, 1, strings.Count(errs, "\n"))
	}
	code, _, _ := result(t, nil, "fanfare", "archive", "verify", "--from", "ftp://x")
	assert.Equal(t, 2, code)
}

// The archive of a running fanfare up can be restored to a second that verify draws.
func TestADrawnSecondIsRestoredAndAudited(t *testing.T) {
	t.Parallel()
	address := "file://" + t.TempDir()
	data := filepath.Join(t.TempDir(), "data")
	p := upWith(t, nil, data)
	_, err := p.as(t, "ann").PutMe(t.Context(), client.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	require.Zero(t, p.stop(t, os.Interrupt)) // before the archive begins, so that each second of the archive has an item
	p = upWith(t, []string{"FANFARE_ARCHIVE=" + address}, data)
	ann := p.as(t, "ann")
	list := func() (ranges int) {
		var all struct{ Lines []archive.Line }
		code, out, errs := result(t, nil, "fanfare", "archive", "ls", "--json", "--from", address)
		require.Zerof(t, code, "%s", errs)
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		for _, line := range all.Lines {
			ranges += len(line.Ranges)
		}
		return ranges
	}
	until(t, "a base", func() bool {
		_, err := ann.CreatePost(t.Context(), client.PostInput{Text: "hello"})
		require.NoError(t, err)
		return list() > 0
	})
	require.Zero(t, p.stop(t, os.Interrupt))
	for range 2 {
		code, out, errs := result(t, nil, "fanfare", "archive", "verify", "--deep", "--json", "--from", address)
		require.Zerof(t, code, "%s%s", out, errs)
		var found struct{ Deep rehearsal }
		require.NoError(t, json.Unmarshal([]byte(out), &found))
		assert.Positive(t, found.Deep.Items)
		assert.Empty(t, found.Deep.Findings)
	}
}
