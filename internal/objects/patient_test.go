package objects_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/objects"
)

// flaky is a store whose reads fail at random, at their begin or in the middle.
type flaky struct {
	objects.Store
	random *rand.Rand
	fails  int // of ten
	err    error
	failed int
}

func (f *flaky) fail() error {
	if f.random.IntN(10) < f.fails {
		f.failed++
		return fmt.Errorf("some call: %w", f.err)
	}
	return nil
}

// Get implements objects.Store.
func (f *flaky) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	body, err := f.Store.Get(ctx, name)
	return &flakyBody{body, f}, err
}

type flakyBody struct {
	io.ReadCloser
	flaky *flaky
}

// Read implements io.Reader. It may return bytes and an error.
func (b *flakyBody) Read(buf []byte) (int, error) {
	if err := b.flaky.fail(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(buf[:min(len(buf), 40)])
	if err == nil {
		err = b.flaky.fail()
	}
	return n, err
}

// List implements objects.Store.
func (f *flaky) List(ctx context.Context, prefix, after string) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		for object, err := range f.Store.List(ctx, prefix, after) {
			if err == nil {
				err = f.fail()
			}
			if !yield(object, err) || err != nil {
				return
			}
		}
	}
}

func TestAPatientReadOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		require.NoError(t, mem.MkdirAll("store", 0o700))
		store, err := objects.OpenDirectory(mem, "store")
		require.NoError(t, err)
		want := bytes.Repeat([]byte("0123456789"), 20)
		var names []string
		for i := range 30 {
			name := fmt.Sprintf("a/%02d", i)
			names = append(names, name)
			require.NoError(t, store.Create(t.Context(), name, objects.Body{From: bytes.NewReader(want), Size: int64(len(want)), SHA256: sha256.Sum256(want)}))
		}
		broken := &flaky{Store: store, random: rand.New(rand.NewPCG(1, 2)), fails: 1, err: objects.ErrAway}
		patient := objects.NewPatient(broken, time.Minute)
		for _, name := range names {
			got, err := objects.Read(t.Context(), patient, name, 1<<20)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
		var listed []string
		for object, err := range patient.List(t.Context(), "a/", "") {
			require.NoError(t, err)
			listed = append(listed, object.Name)
		}
		assert.Equal(t, names, listed)
		assert.Greater(t, broken.failed, 20)

		// A long outage, and an error that no repetition can mend, are returned.
		broken.fails = 10
		began := time.Now()
		_, err = objects.Read(t.Context(), patient, names[0], 1<<20)
		require.ErrorIs(t, err, objects.ErrAway)
		assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		broken.err = objects.ErrRefused
		for _, err := range patient.List(t.Context(), "a/", "") {
			require.ErrorIs(t, err, objects.ErrRefused)
		}
		_, err = objects.Read(t.Context(), objects.NewPatient(store, time.Minute), "b", 1)
		require.ErrorIs(t, err, objects.ErrNotThere)
		ctx, cancel := context.WithCancel(t.Context())
		broken.err = objects.ErrAway
		time.AfterFunc(5*time.Second, cancel)
		_, err = patient.Get(ctx, names[0])
		require.ErrorIs(t, err, context.Canceled)
	})
}
