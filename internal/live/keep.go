package live

import (
	"context"
	"errors"
	"slices"
	"time"

	"fanfare/internal/backoff"
)

// unlistedStale is the time between two events stale of a home that lacks authors in its list (C6).
const unlistedStale = 10 * time.Minute

// keep reads the list of the home's authors, and checks the profile of the home's user, once for all
// streams.
func (hm *userHome) keep() {
	failed := backoff.Exponential{First: failedLook, Most: profileLook}
	profileAt, staleAt, doubted := time.Now().Add(profileLook), time.Now().Add(unlistedStale), false
	for failures, listAt, next := 0, time.Now(), time.Now(); hm.untilDoubt(next, &doubted); {
		now := time.Now()
		var err error
		if doubted || !now.Before(profileAt) {
			if err = hm.askProfile(doubted); err == nil {
				profileAt, doubted = now.Add(profileLook), false
			}
		}
		if !now.Before(listAt) {
			listErr := hm.list()
			if err = errors.Join(err, listErr); listErr == nil {
				listAt = now.Add(listAge)
			}
		}
		if !now.Before(staleAt) {
			if !hm.hub.readers.whole(hm) {
				hm.stale(nil)
			}
			staleAt = now.Add(unlistedStale)
		}
		if failures++; err != nil {
			next = now.Add(failed.Bound(failures))
			continue
		}
		failures, next = 0, slices.MinFunc([]time.Time{profileAt, listAt, staleAt}, time.Time.Compare)
	}
}

// untilDoubt waits until next, or until the profile of the user may be gone, and then sets doubted.
// untilDoubt returns false at the end of the home.
func (hm *userHome) untilDoubt(next time.Time, doubted *bool) bool {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-timer.C:
		select {
		case <-hm.doubted: // the doubt arrived at the same moment
			*doubted = true
		default:
		}
	case <-hm.doubted:
		*doubted = true
	case <-hm.ctx.Done():
	}
	return hm.ctx.Err() == nil
}

// askProfile ends the streams if their user has no profile, because a removed user must not read
// posts. For that reason askProfile does not wait for units.
func (hm *userHome) askProfile(consistent bool) error {
	err := hm.charged(hm.ctx, nil, 0, func(ctx context.Context) error { return hm.requireProfile(ctx, consistent) })
	if errors.Is(err, ErrNoProfile) {
		hm.stop(ErrNoProfile)
	}
	return err
}

// list reads the authors whose posts the home shows. If the list does not fit into memory, the home
// gets no hints, so looks at the home are more frequent. A hint without a post replaces the hints that
// arrived during the read.
func (hm *userHome) list() error {
	readers, began := hm.hub.readers, time.Now()
	readers.begin(hm)
	var users []string
	var whole bool
	err := hm.charged(hm.ctx, nil, unitsOfList, func(ctx context.Context) (err error) {
		users, whole, err = hm.hub.cfg.Homes.Heard(ctx, hm.user, mostAuthors)
		return err
	})
	if err != nil {
		return err
	}
	slow := hm.hub.cfg.SlowLook
	if fits := readers.set(hm, users, whole); !fits {
		slow = min(slow, unlistedLook)
	}
	hm.agenda.setSlow(slow)
	hm.agenda.hint(somePost, 0, hintTry)
	hm.retell(hm.lacks, nil)
	hm.lacks = began
	return nil
}

// requireProfile returns ErrNoProfile if the home's user has no profile.
func (hm *userHome) requireProfile(ctx context.Context, consistent bool) error {
	has, err := hm.hub.cfg.Homes.HasProfile(ctx, hm.user, consistent)
	if err == nil && !has {
		return ErrNoProfile
	}
	return err
}
