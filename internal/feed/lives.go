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

// This file contains the rules that distinguish the lives of a user under one id
// (docs/decisions/0030). All ids and versions of a life are above After of the life's profile.

// LifeGap is the minimum time between a removal (or the return, if the return is later) and the ids of
// the next life. Concurrent calls made ids above the removal's id. The gap covers these ids, and clock
// skew below LifeGap.
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
	if now.Profile, _, err = schema.ParseUser(items); now.Profile == nil {
		s.cfg.Authors.forget(user) // a transaction without an answer may have removed the profile later
	}
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

// sameLife holds for a profile of p's life.
func sameLife(p schema.Profile) table.Cond {
	it := p.Item()
	return table.All{unchangedAttr(it, schema.AttrCreated), unchangedAttr(it, schema.AttrAfter)}
}

// EndLife makes the transaction of a removal: it replaces the profile that was read by the note of the
// event. The note proves that the missing profile is no damage. An earlier removal never lowers the
// note.
func (s *Service) EndLife(ctx context.Context, user, event string, now Standing) (schema.Removal, error) {
	removal := schema.Removal{User: user, Event: event, At: s.access.Now()}
	ops := []table.TransactOp{{Put: &table.PutInput{Item: removal.NewItem(id.Floor(removal.At)), If: table.Any{
		table.Absent{}, table.Less{Name: schema.AttrEvent, Value: table.S(event)}, table.Equal{Name: schema.AttrEvent, Value: table.S(event)},
	}}}}
	if now.Profile != nil {
		ops = append(ops, table.TransactOp{Delete: &table.DeleteInput{Key: schema.ProfileKey(user), If: sameLife(*now.Profile)}})
	} else { // a user may return in the meantime, and a user with a profile has no note
		ops = append(ops, table.TransactOp{Check: &table.CheckInput{Key: schema.ProfileKey(user), If: table.Absent{}}})
	}
	defer func() { // also after an error: the transaction may have happened
		s.cfg.Authors.forget(user)
		s.access.Recent.Drop(schema.ProfileKey(user))
	}()
	return removal, s.access.Transact(ctx, ops...)
}

// beginLife makes profile the first profile of a new life if a note of a removal exists. Otherwise
// beginLife leaves profile unchanged.
func (s *Service) beginLife(profile *schema.Profile, note *schema.Removal) error {
	if note == nil {
		return nil
	}
	// The message of the removal may be late, so the event may be days old. The profile was removed just
	// now, and concurrent calls that read the profile made ids of the present time.
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

// writeProfile writes a profile on a condition of the previous profile. The same transaction counts
// the use of the call, and deletes the note that was read (nil for none), because the profile contains
// the content of the note. A first profile checks that no note exists: a removal's transaction may be
// visible in part, and then a read misses the profile before the note is visible (I12).
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

// afterOf returns an id above all ids of the former lives of two users, by the profiles in found.
func afterOf(found map[table.Key]table.Item, user, other string) string {
	return max(found[schema.ProfileKey(user)].Str(schema.AttrAfter), found[schema.ProfileKey(other)].Str(schema.AttrAfter))
}

// isFormer reports whether the time of a record is not above after. Such a record is being removed, so
// a repeated call writes the record again. Records store times in milliseconds.
func isFormer(at time.Time, after string) bool {
	return after != "" && at.UnixMilli() <= access.TimeOf(after).UnixMilli()
}

// above returns at, or the first time above after if that time is later than at.
func above(after string, at time.Time) time.Time {
	if isFormer(at, after) {
		return access.TimeOf(after).Add(time.Millisecond)
	}
	return at
}

// unchangedAttr holds while an attribute of an item has not changed since the read.
func unchangedAttr(old table.Item, name string) table.Cond {
	if !old.Has(name) {
		return table.AttrAbsent{Name: name}
	}
	return table.Equal{Name: name, Value: old.Get(name)}
}
