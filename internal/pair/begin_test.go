package pair_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/objects"
	"fanfare/internal/pair"
)

// failing is a register whose reads fail, each with the next error. The last read ends the start.
type failing struct {
	pair.Register
	errs []error
	end  context.CancelFunc
}

func (f *failing) Read(context.Context) (pair.Entry, objects.Version, error) {
	err := f.errs[0]
	if f.errs = f.errs[1:]; len(f.errs) == 0 {
		f.end()
	}
	return pair.Entry{}, "", err
}

// A start may wait for days, and each error of S3 has another request id.
func TestAStartLogsEachReasonOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		f := &failing{end: end}
		for i, kind := range []error{objects.ErrAway, objects.ErrAway, context.DeadlineExceeded, objects.ErrRefused, objects.ErrRefused, errors.New("damaged"), errors.New("damaged"), objects.ErrAway, objects.ErrAway} {
			if i < 5 || i > 6 {
				kind = fmt.Errorf("request %d: %w", i, kind)
			}
			f.errs = append(f.errs, kind)
		}
		core, logs := observer.New(zap.InfoLevel)
		waits := 0
		config := pair.BeginConfig{
			Role: pair.NewRole(t.TempDir(), pair.RolePrimary), Register: f, Timing: timing, Waiting: func(error) { waits++ }, Log: zap.New(core),
		}
		require.ErrorIs(t, pair.Begin(ctx, config), context.Canceled)
		assert.Equal(t, 8, waits, "the operator sees the newest reason")
		assert.Len(t, logs.All(), 4)
	})
}
