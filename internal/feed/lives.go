package feed

import (
	"context"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file holds the rules by which the lives of a user under one id are told apart
// (docs/decisions/0030). All ids and versions of a life are above its profile's After.

// LifeGap is the least time between a removal, or the return if that is later, and the ids of the next
// life. Calls that were under way made ids above that of the removal; the gap covers them, and
// clocks that differ by less.
const LifeGap = time.Minute

// Standing is the state of a user: a profile, the note of a removal, or neither.
type Standing struct {
	Profile *schema.Profile
	Note    *schema.Removal
	// Asked is the time just before the read.
	Asked time.Time
}

// Standing reads the state of a user, consistently.
func (s *Service) Standing(ctx context.Context, user string) (now Standing, err error) {
	now.Asked = s.access.Now()
	found, err := s.access.BatchGet(ctx, []table.Key{schema.ProfileKey(user), schema.ForgottenKey(user)}, true)
	if err != nil {
		return Standing{}, err
	}
	items := make([]table.Item, 0, len(found))
	for _, it := range found {
		items = append(items, it)
	}
	now.Note = schema.NoteOf(user, items)
	now.Profile, _, err = schema.ParseUser(items)
	return now, fault.Wrap("table", err)
}

// Removal returns the newest removal of the user, zero for none.
func (now Standing) Removal() schema.Removal {
	switch {
	case now.Note != nil:
		return *now.Note
	case now.Profile != nil:
		return now.Profile.Former
	}
	return schema.Removal{}
}

// sameLife holds for a profile of the same life.
func sameLife(p schema.Profile) table.Cond {
	it := p.Item()
	return table.All{unchangedAttr(it, schema.AttrCreated), unchangedAttr(it, schema.AttrAfter)}
}

// EndLife makes the transaction of a removal: the profile that was read goes, and the note of the
// event stands in its place. Nobody takes the removal of a user for damage, and no earlier
// removal lowers the note.
func (s *Service) EndLife(ctx context.Context, user, event string, now Standing) (schema.Removal, error) {
	removal := schema.Removal{User: user, Event: event, At: s.access.Now()}
	ops := []table.TransactOp{{Put: &table.PutInput{Item: removal.NewItem(id.Floor(removal.At)), If: table.Any{
		table.Absent{}, table.Less{Name: schema.AttrEvent, Value: table.S(event)}, table.Equal{Name: schema.AttrEvent, Value: table.S(event)},
	}}}}
	if now.Profile != nil {
		ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{Key: schema.ProfileKey(user), If: sameLife(*now.Profile)}})
	} else { // a user may come back meanwhile, and a profile has no note beside it
		ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: schema.ProfileKey(user), If: table.Absent{}}})
	}
	s.cfg.Authors.forget(user)
	return removal, s.access.Transact(ctx, ops...)
}

// beginLife makes profile the first one of a new life if the note of a removal was read, and leaves it
// as it is otherwise.
func (s *Service) beginLife(profile *schema.Profile, note *schema.Removal) error {
	if note == nil {
		return nil
	}
	// The event may be days old, as its message may be late: the profile went just now, and the calls
	// that read it made ids of now.
	latest := access.TimeOf(note.Event)
	if now := s.access.Now(); now.After(latest) {
		latest = now
	}
	after, err := s.access.IDs.After(id.Floor(latest.Add(LifeGap)))
	if err != nil {
		return err
	}
	profile.After, profile.Former = after, *note
	return nil
}

// writeProfile writes a profile on a condition of the one before it. The note that was read, nil
// for none, ends in the same transaction: it is in the profile. So does the use of the call. A first
// profile checks that there is no note: the transaction of a removal may be visible in part, and its
// profile may have gone before its note is seen (I12).
func (s *Service) writeProfile(ctx context.Context, profile schema.Profile, same table.Cond, note *schema.Removal, u use) error {
	put := table.PutInput{Item: profile.Item(), If: same}
	ops := []table.TransactOp{{Put: &put}}
	if _, first := same.(table.Absent); first && note == nil {
		ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: schema.ForgottenKey(profile.User), If: table.Absent{}}})
	}
	if note != nil {
		ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{
			Key: schema.ForgottenKey(profile.User), If: table.Equal{Name: schema.AttrEvent, Value: table.S(note.Event)},
		}})
	}
	if u.user != "" {
		count := &table.UpdateInput{Key: schema.CountsKey(u.user)}
		u.countTo(count)
		ops = append(ops, table.TransactOp{Update: count})
	}
	if len(ops) == 1 {
		_, err := s.access.Store.Put(ctx, put)
		return err
	}
	return s.access.Transact(ctx, ops...)
}

// afterOf returns the id below which the former lives of two users are, by their profiles as they
// were read.
func afterOf(found map[table.Key]table.Item, user, other string) string {
	return max(found[schema.ProfileKey(user)].Str(schema.AttrAfter), found[schema.ProfileKey(other)].Str(schema.AttrAfter))
}

// isFormer reports whether a record of this time is not above after. Such a record is being removed,
// so a call that repeats it writes it again. Records keep milliseconds.
func isFormer(at time.Time, after string) bool {
	return after != "" && at.UnixMilli() <= access.TimeOf(after).UnixMilli()
}

// above returns a time, or the first one above after if that is later.
func above(after string, at time.Time) time.Time {
	if isFormer(at, after) {
		return access.TimeOf(after).Add(time.Millisecond)
	}
	return at
}

// unchangedAttr holds while an attribute of an item is as it was read.
func unchangedAttr(old table.Item, name string) table.Cond {
	if !old.Has(name) {
		return table.AttrAbsent{Name: name}
	}
	return table.Equal{Name: name, Value: old.Get(name)}
}
