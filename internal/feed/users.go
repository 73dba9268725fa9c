package feed

import (
	"context"
	"fmt"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/invariants"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// PutProfile makes the user at the first call, and changes the profile at later calls. The time of
// creation never changes, and the last of two writers wins. A worker copies a new name or image to the
// user's recent posts.
func (s *Service) PutProfile(ctx context.Context, user string, in ProfileInput) (made User, err error) {
	if err := in.validate(); err != nil {
		return User{}, err
	}
	err = s.access.RetryChanged(func() (changed bool, err error) {
		made, err = s.putProfile(ctx, user, in)
		return access.ConditionFailed(err), err
	})
	return made, err
}

// putProfile makes one attempt of PutProfile. Its condition fails if another call has changed the name
// or the image after the read.
func (s *Service) putProfile(ctx context.Context, user string, in ProfileInput) (User, error) {
	items, err := s.userItems(ctx, user)
	if err != nil {
		return User{}, err
	}
	old, counts, err := parseUser(user, items)
	if err != nil {
		return User{}, err
	}
	now := s.access.Now().UTC().Truncate(time.Millisecond)
	profile := schema.Profile{User: user, Name: in.Name, Bio: in.Bio, ImageURL: in.ImageURL, CreatedAt: now}
	if in.Data != nil {
		profile.Data = *in.Data
	}
	same := table.Cond(table.Absent{})
	note := schema.NoteOf(user, items)
	if old != nil {
		profile.CreatedAt, profile.V, profile.After, profile.Former = old.CreatedAt, old.V, old.After, old.Former
		same, note = table.All{sameProfile(old.V), sameLife(*old)}, nil
		if in.Data == nil { // a call without data must not undo a concurrent change of the data
			profile.Data = old.Data
			same = table.All{same, unchangedAttr(old.Item(), schema.AttrData)}
		}
	} else if err := s.beginLife(&profile, note); err != nil {
		return User{}, fmt.Errorf("feed: %w", err)
	}
	write := func(u use) error {
		defer s.cfg.Authors.forget(user) // also after an error: the write may have happened
		return s.writeProfile(ctx, profile, same, note, u)
	}
	renamed := old == nil || in.Name != old.Name || in.ImageURL != old.ImageURL
	if renamed {
		// Versions count from the time, so this version is above the versions of a removed profile.
		profile.V = max(above(profile.After, now).UnixMilli(), profile.V+1)
	}
	if renamed && (old != nil || counts != (schema.Counts{})) { // a new user has no post with another name
		err = s.rename(ctx, profile, counts, countsItem(user, items), write)
	} else {
		err = write(use{})
	}
	if err != nil {
		return User{}, err
	}
	made := userOf(profile, counts)
	profile.Data = "" // homes do not show the data
	s.access.Recent.Keep(profile.Item(), now)
	return made, nil
}

// rename changes a name or an image, unless the user's hour is used up. rename sends the event before
// the change, so that no crash loses the event (docs/decisions/0037).
func (s *Service) rename(ctx context.Context, profile schema.Profile, counts schema.Counts, item *table.Item, write func(use) error) error {
	u := s.useOf(profile.User, s.access.Now(), cost{own: unitsOfRename}, item)
	if err := s.refused(u); err != nil {
		return err
	}
	of, err := s.rewritten(ctx, profile.User, counts)
	if err != nil {
		return err
	}
	u.units = of.own + of.later
	err = s.inTurn(ctx, u, func(u use) error {
		if err := s.refused(u); err != nil {
			return err
		}
		if err := s.access.Publish(ctx, queue.TopicBackfills, &messages.ProfileChanged{UserID: profile.User, V: profile.V}); err != nil {
			return err
		}
		return write(u)
	})
	if err == nil {
		access.Cause(ctx, of.later)
	}
	return err
}

// mostCounted is the number of posts that rewritten reads: one page.
const mostCounted = 1000

// rewritten returns the cost of a rename, whose worker rewrites the bylines of the user's posts. If the posts exceed one page, rewritten
// counts all posts of the user, each with the mean size of the posts of that page.
func (s *Service) rewritten(ctx context.Context, user string, counts schema.Counts) (of cost, err error) {
	oldest := id.Floor(s.access.Now().Add(-2 * schema.BylineShown))                                                    // as the worker
	q := table.Query{PK: schema.PostsPK(user), Low: schema.PostSK(oldest), PageSize: mostCounted, Project: []string{}} //nolint:forbidigo // the bytes of the own posts, for the cost of a rename
	for page, err := range s.access.Store.Query(ctx, q) {
		if err != nil {
			return of, fault.Wrap("table", err)
		}
		posts, kilobytes := int64(len(page.Items)), int64(8*page.Units.Read) // half a unit is 4 KB
		if all := counts.Posts; page.More && posts > 0 && all > posts {
			posts, kilobytes = all, kilobytes*all/posts
		}
		return costOfRename(posts, kilobytes), nil
	}
	return costOfRename(0, 0), nil
}

// sameProfile holds for a profile with the version v. Two different names never have the same version,
// and a removed profile never exists again.
func sameProfile(v int64) table.Cond {
	if v == 0 {
		return table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrBylineV}}
	}
	return table.Equal{Name: schema.AttrBylineV, Value: table.N(v)}
}

// User returns a profile with its counts, by one query.
func (s *Service) User(ctx context.Context, user string) (User, error) {
	found, err := s.users(ctx, []string{user})
	if err != nil {
		return User{}, err
	}
	stored := found[user]
	if stored.profile == nil {
		return User{}, fault.NotFoundf("there is no user %s", user)
	}
	return userOf(*stored.profile, stored.counts), nil
}

// storedUser is the result of readUser. Several requests may share a storedUser, so it must not be
// changed.
type storedUser struct {
	profile *schema.Profile
	counts  schema.Counts
}

// readUsers reads several users concurrently, as readUser reads one user.
func (s *Service) readUsers(ctx context.Context, users []string) (map[string]storedUser, error) {
	stored := make([]storedUser, len(users))
	reads := make([]func(context.Context) error, len(users))
	for i, user := range users {
		reads[i] = func(ctx context.Context) (err error) {
			stored[i].profile, stored[i].counts, err = s.readUser(ctx, user)
			return err
		}
	}
	if err := s.access.All(ctx, reads...); err != nil {
		return nil, err
	}
	found := make(map[string]storedUser, len(users))
	for i, user := range users {
		found[user] = stored[i]
	}
	return found, nil
}

// userItems reads the items of a user: the profile, the counts, and the note of a removal.
func (s *Service) userItems(ctx context.Context, user string) ([]table.Item, error) {
	items, _, err := table.Collect(s.access.Store.Query(ctx, table.Query{PK: schema.UserPK(user), Consistent: true}), 0)
	return items, fault.Wrap("table", err)
}

// readUser reads a user's counts and profile. The profile is nil if the user has none.
func (s *Service) readUser(ctx context.Context, user string) (*schema.Profile, schema.Counts, error) {
	items, err := s.userItems(ctx, user)
	if err != nil {
		return nil, schema.Counts{}, err
	}
	return parseUser(user, items)
}

// parseUser decodes the items of a user.
func parseUser(user string, items []table.Item) (*schema.Profile, schema.Counts, error) {
	profile, counts, err := schema.ParseUser(items)
	if err != nil {
		return nil, schema.Counts{}, fault.Wrap("table", err)
	}
	invariants.Check(min(counts.Silent, counts.Followers-counts.Silent, counts.Following, counts.Posts) >= 0, "I4: the counts of %s are %+v", user, counts)
	return profile, counts, nil
}

func userOf(p schema.Profile, c schema.Counts) User {
	return User{ID: p.User, Name: p.Name, Bio: p.Bio, ImageURL: p.ImageURL, Data: p.Data, CreatedAt: p.CreatedAt, Counts: Counts{c.Followers - c.Silent, c.Following, c.Posts}}
}

// hasProfile makes a transaction fail if the user has no profile.
func hasProfile(user string) table.TransactOp {
	return table.TransactOp{Check: &table.CheckInput{Key: schema.ProfileKey(user), If: table.Exists{}}}
}

// removed reports whether a user was removed, or is being removed, and has no new profile. found has
// the user's profile and note.
func removed(found map[table.Key]table.Item, user string) bool {
	_, profile := found[schema.ProfileKey(user)]
	_, note := found[schema.ForgottenKey(user)]
	return note && !profile
}
