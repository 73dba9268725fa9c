package restore

import (
	"context"
	"errors"
	"fmt"

	"fanfare/internal/disk"
	"fanfare/internal/objects"
)

// wayOut adds to the error about a damaged or missing object what an operator can do.
func wayOut(err error) error {
	_, early := errors.AsType[*EarlyError](err)
	_, late := errors.AsType[*LateError](err)
	_, gap := errors.AsType[*GapError](err)
	_, damaged := errors.AsType[*DamagedError](err)
	_, newer := errors.AsType[*disk.FormatError](err)
	for _, passing := range []error{objects.ErrAway, objects.ErrRefused, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, passing) {
			return err
		}
	}
	if err == nil || early || late || gap || damaged || newer {
		return err
	}
	return fmt.Errorf("%w; fanfare archive verify names each damaged and missing object, and shows the times to which fanfare restore --at is possible all the same", err)
}
