package replay

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAJournalEqualsTheRecordInMemory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "journal")
	r, err := newRecord(file)
	require.NoError(t, err)
	for i, e := range []entry{
		{Call: callProfile, User: "a"}, {Call: callFollow, User: "a", Object: "b"},
		{Call: callPost, User: "a", Object: "text"}, {Call: callLike, User: "a", Object: "P"},
	} {
		n, err := r.intend(e)
		if err != nil || n != i+1 {
			t.Fatalf("call %d is number %d, error %v", i, n, err)
		}
	}
	for _, err := range []error{r.answer(3, "P", nil), r.answer(1, "a", nil), r.answer(2, "", errors.New("no answer"))} {
		require.NoError(t, err)
	}
	if answered, open := r.count(); answered != 2 || open != 2 {
		t.Errorf("%d answered, %d open", answered, open)
	}
	calls, err := readJournal(file) // before the record is closed, as if the process had died
	if err != nil || !reflect.DeepEqual(factsOf(calls), r.facts()) {
		t.Errorf("read %+v, error %v", calls, err)
	}
	require.NoError(t, r.close())
	_, err = newRecord(file)
	assert.ErrorIs(t, err, ErrUsage, "a second run may write over a journal")
	_, err = newRecord(filepath.Join(file, "x"))
	assert.Error(t, err, "a journal in no directory is accepted")
}

func TestAJournalThatWasCutIsRead(t *testing.T) {
	t.Parallel()
	whole := `{"version":1}
{"n":1,"call":"post","user":"a","object":"text"}
{"n":1,"ok":true,"id":"P"}
`
	for cut := len(`{"version":1}`) + 1; cut <= len(whole); cut++ {
		calls, err := parseJournal(strings.NewReader(whole[:cut]), "j")
		require.NoErrorf(t, err, "cut at %d", cut)
		sent := strings.Contains(whole[:cut], "text\"}\n")
		answered := cut == len(whole)
		if (len(calls) == 1) != sent || sent && calls[0].OK != answered {
			t.Fatalf("cut at %d: %+v", cut, calls)
		}
	}
}

func TestABadJournalIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":             "",
		"no header":         `{"n":1,"call":"like"}` + "\n",
		"newer":             `{"version":2}` + "\n",
		"no JSON":           "{\"version\":1}\nhello\n",
		"a gap":             "{\"version\":1}\n{\"n\":2,\"call\":\"like\"}\n",
		"a name twice":      "{\"version\":1}\n{\"n\":1,\"call\":\"like\",\"user\":\"a\",\"user\":\"b\"}\n",
		"half a surrogate":  "{\"version\":1}\n{\"n\":1,\"call\":\"like\",\"user\":\"\\ud800\"}\n",
		"another case":      "{\"VERSION\":1}\n",
		"two on a line":     "{\"version\":1}{}\n",
		"a long line":       "{\"version\":1,\"x\":\"" + strings.Repeat("x", 1<<20) + "\"}\n",
		"answer to nothing": "{\"version\":1}\n{\"n\":1,\"ok\":true}\n",
	} {
		if calls, err := parseJournal(strings.NewReader(text), "j"); err == nil || !strings.HasPrefix(err.Error(), "j") {
			t.Errorf("%s: read %+v, error %v", name, calls, err)
		}
	}
	_, err := readJournal(filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzParseJournal(f *testing.F) {
	f.Add("{\"version\":1}\n{\"n\":1,\"call\":\"post\"}\n{\"n\":1,\"ok\":true}\n")
	f.Add("{\"version\":1}\n{\"n\":-1}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if calls, err := parseJournal(strings.NewReader(text), "j"); err == nil {
			factsOf(calls).settle(&answers{})
		}
	})
}
