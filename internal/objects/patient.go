package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"fanfare/internal/backoff"
)

// Patient is a store that repeats a read while the store is away. An object never changes, so a
// read that was cut continues where it was cut. Create and Delete are not repeated.
type Patient struct {
	Store
	most  time.Duration
	waits backoff.Exponential
}

// NewPatient returns a patient store. A read fails once the store was away for the time most.
func NewPatient(store Store, most time.Duration) *Patient {
	return &Patient{store, most, backoff.Exponential{First: 100 * time.Millisecond, Most: 10 * time.Second}}
}

// outage is the time since the last answer of the store. The zero value is no outage.
type outage struct {
	since    time.Time
	failures int
}

// again waits before a call is repeated. It returns err if a repetition cannot help.
func (p *Patient) again(ctx context.Context, o *outage, err error) error {
	if !errors.Is(err, ErrAway) {
		return err
	}
	if o.failures == 0 {
		o.since = time.Now()
	}
	if away := time.Since(o.since); away >= p.most {
		return fmt.Errorf("%d calls failed in %s: %w", o.failures+1, away.Round(time.Second), err)
	}
	o.failures++
	return backoff.Wait(ctx, p.waits.Jittered(o.failures, 0.5+rand.Float64()/2))
}

// Get implements Store.
func (p *Patient) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	var o outage
	for {
		body, err := p.Store.Get(ctx, name)
		if err == nil {
			return &patientBody{patient: p, ctx: ctx, name: name, body: body}, nil
		}
		if err := p.again(ctx, &o, err); err != nil {
			return nil, err
		}
	}
}

// List implements Store.
func (p *Patient) List(ctx context.Context, prefix, after string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o := (outage{}); ; {
			var failed error
			for object, err := range p.Store.List(ctx, prefix, after) {
				if err != nil {
					failed = err
					break
				}
				if !yield(object, nil) {
					return
				}
				after, o = object.Name, outage{}
			}
			if failed == nil {
				return
			}
			if err := p.again(ctx, &o, failed); err != nil {
				yield(Object{}, err)
				return
			}
		}
	}
}

// patientBody is the content of an object.
type patientBody struct {
	patient *Patient
	ctx     context.Context //nolint:containedctx // the life of one read
	name    string
	body    io.ReadCloser
	read    int64
	outage  outage
}

// Read implements io.Reader.
func (b *patientBody) Read(buf []byte) (int, error) {
	for {
		n, err := b.body.Read(buf)
		b.read += int64(n)
		if n > 0 {
			b.outage = outage{}
			if errors.Is(err, ErrAway) {
				err = nil // the next call of Read gets the error again, or the rest
			}
			return n, err
		}
		for err != nil {
			if err := b.patient.again(b.ctx, &b.outage, err); err != nil {
				return 0, err
			}
			err = b.reopen()
		}
	}
}

// reopen opens the object again, and skips the bytes that were read.
func (b *patientBody) reopen() error {
	body, err := b.patient.Store.Get(b.ctx, b.name)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, body, b.read); err != nil {
		return errors.Join(err, body.Close())
	}
	err = b.body.Close()
	b.body = body
	return err
}

// Close implements io.Closer.
func (b *patientBody) Close() error { return b.body.Close() }
