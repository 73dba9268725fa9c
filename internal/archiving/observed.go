package archiving

import (
	"context"
	"errors"
	"strings"
	"time"

	"fanfare/internal/objects"
)

// observed is a store that reports the tries to write a segment.
type observed struct {
	objects.Store
	put func(result string, took time.Duration)
}

// Create implements objects.Store.
func (o *observed) Create(ctx context.Context, name string, body objects.Body) error {
	began := time.Now()
	err := o.Store.Create(ctx, name, body)
	if o.put != nil && strings.Contains(name, "/s/") {
		o.put(resultOf(err), time.Since(began))
	}
	return err
}

func resultOf(err error) string {
	_, exists := errors.AsType[*objects.ExistsError](err)
	switch {
	case err == nil:
		return "stored"
	case exists:
		return "fenced"
	case errors.Is(err, objects.ErrRefused):
		return "refused"
	default:
		return "away"
	}
}
