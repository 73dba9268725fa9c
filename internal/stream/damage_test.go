package stream_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/stream"
)

// What becomes of a damaged file of the spool. docs/OUTAGES.md has this table.
const (
	// fromLogs: the stream ends before the damage, and the start reads the rest from the logs, which have it after a power cut. If they do
	// not have it, the archive gets a gap, which is named.
	fromLogs = "the start reads the logs from there on"
	// isGap: a read finds the damage. The receiver has a gap, which is named, and the next base ends it.
	isGap = "a gap, named; the next base ends it"
)

func TestEachDamageOfASpoolIsNamedOrHarmless(t *testing.T) {
	t.Parallel()
	_, _, one := spooled(t, 1)
	_, _, two := spooled(t, 2)
	_, _, whole := spooled(t, 3)
	flipped := func(at int) []byte {
		data := bytes.Clone(whole)
		data[at] ^= 4
		return data
	}
	for damage, c := range map[string]struct {
		data    []byte // nil for an absent file
		outcome string
		logs    uint64 // the newest log up to which the spool has the stream
	}{
		"head":                      {flipped(9), fromLogs, 0},
		"middle":                    {flipped(len(one) + (len(two)-len(one))/2 + 20), isGap, 3},
		"end":                       {flipped(len(whole) - 1), fromLogs, 2},
		"absent":                    {nil, fromLogs, 0},
		"cut":                       {whole[:len(two)+30], fromLogs, 2},
		"swapped with an older one": {two, fromLogs, 2},
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewMem()
			require.NoError(t, mem.MkdirAll("stream", 0o700))
			if c.data != nil {
				put(t, mem, "stream/0000000000000000.spool", c.data)
			}
			s := open(t, config(mem), stream.Position{})
			assert.Equal(t, c.logs, s.End().Table.Log)
			r, outcome := s.Receive(stream.Position{}), fromLogs
			for at := (stream.Position{}); !at.Covers(s.Safe()); {
				frames, _, err := r.Next(t.Context(), 1<<20)
				if errors.Is(err, stream.ErrGap) {
					outcome = isGap
					break
				}
				require.NoError(t, err)
				for _, f := range frames {
					at = at.After(f)
					if f.Kind == stream.Bytes {
						assert.Equal(t, noise(99+int(f.Log)), f.Data, "damage is never handed on")
					}
				}
			}
			assert.Equal(t, c.outcome, outcome)
			require.NoError(t, s.Close())
		})
	}
}
