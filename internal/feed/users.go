package feed

import (
	"context"
	"errors"
	"time"

	"fanfare/internal/invariants"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// PutProfile makes the user when it is first called, and changes the profile later.
func (s *Service) PutProfile(ctx context.Context, user string, in ProfileInput) (User, error) {
	if err := in.validate(); err != nil {
		return User{}, err
	}
	old, counts, err := s.readUser(ctx, user)
	if err != nil {
		return User{}, err
	}
	profile := schema.Profile{User: user, Name: in.Name, Bio: in.Bio, ImageURL: in.ImageURL, CreatedAt: s.cfg.Now().UTC().Truncate(time.Millisecond)}
	if old == nil {
		_, err := s.cfg.Store.Put(ctx, table.PutInput{Item: profile.Item(), If: table.Absent{}})
		if err == nil {
			s.recent.keep(profile.Item())
			return userOf(profile, counts), nil
		}
		failed, ok := errors.AsType[*table.ConditionError](err)
		if !ok || failed.Old == nil {
			return User{}, unavailable("table", err)
		}
		made, err := schema.ParseProfile(*failed.Old) // another call made it meanwhile
		if err != nil {
			return User{}, unavailable("table", err)
		}
		old = &made
	}
	// Its time of creation never changes, and the last of two writers wins. But a profile
	// that was removed meanwhile must not come back.
	profile.CreatedAt = old.CreatedAt
	_, err = s.cfg.Store.Put(ctx, table.PutInput{Item: profile.Item(), If: table.Exists{}})
	if _, removed := errors.AsType[*table.ConditionError](err); removed {
		return s.PutProfile(ctx, user, in)
	}
	if err != nil {
		return User{}, unavailable("table", err)
	}
	s.recent.keep(profile.Item())
	return userOf(profile, counts), nil
}

// User returns a profile with its counts, by one query.
func (s *Service) User(ctx context.Context, user string) (User, error) {
	profile, counts, err := s.readUser(ctx, user)
	if err != nil {
		return User{}, err
	}
	if profile == nil {
		return User{}, notFound("there is no user %s", user)
	}
	return userOf(*profile, counts), nil
}

// readUser reads a profile, nil if there is none, and the counts. The partition holds
// nothing else.
func (s *Service) readUser(ctx context.Context, user string) (*schema.Profile, schema.Counts, error) {
	items, _, err := table.Collect(s.cfg.Store.Query(ctx, table.Query{PK: schema.UserPK(user), Consistent: true}), 0)
	if err != nil {
		return nil, schema.Counts{}, unavailable("table", err)
	}
	profile, counts, err := schema.ParseUser(items)
	if err != nil {
		return nil, schema.Counts{}, unavailable("table", err)
	}
	invariants.Check(min(counts.Followers, counts.Following, counts.Posts) >= 0, "I4: the counts of %s are %+v", user, counts)
	return profile, counts, nil
}

func userOf(p schema.Profile, c schema.Counts) User {
	return User{ID: p.User, Name: p.Name, Bio: p.Bio, ImageURL: p.ImageURL, CreatedAt: p.CreatedAt, Counts: Counts{c.Followers, c.Following, c.Posts}}
}
