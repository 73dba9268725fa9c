package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file contains read markers (docs/decisions/0050). A marker is a position in a list that the
// marker's user names. A marker only moves forward, so two devices and repeated calls in any order end
// at the highest position.

const (
	// MaxMarkers is the number of markers that one user may have. Each new name reads all of the user's
	// markers, so MaxMarkers bounds the cost of a new name (I11).
	MaxMarkers = 1000
	// maxPosition is the maximum number of bytes of a position.
	maxPosition = 128
)

// Marker is the position up to which a user has read the list Name.
type Marker struct {
	Name, Position string
	UpdatedAt      time.Time
}

func ownMarkers() ownList[schema.Marker] {
	return ownList[schema.Marker]{
		all: func(user string) table.Query {
			return table.Query{PK: schema.MarkersPK(user), Project: []string{schema.AttrPosition, schema.AttrAsOf}}
		},
		parse: schema.ParseMarker, former: func(m schema.Marker, after string) bool { return isFormer(m.At, after) },
		end: (*Service).endMarker, most: MaxMarkers, sort: "marker", full: "you have %d markers, the most that you may: delete one first",
	}
}

// OwnMarkers returns the read markers of user.
func (s *Service) OwnMarkers(user string) Own { return ownMarkers().of(s, user) }

func markerOf(m schema.Marker) Marker { return Marker{m.Name, m.Position, m.At} }

// CheckMarker returns the faults of a marker.
func CheckMarker(name, position string) (all []fault.FieldError) {
	if !id.ValidUser(name) {
		all = append(all, fault.FieldError{Field: "name", Detail: fmt.Sprintf("%q is not a name: use %s", name, id.UserGrammar)})
	}
	for i := range len(position) {
		if c := position[i]; c < '!' || c > '~' {
			return append(all, fault.FieldError{Field: "position", Detail: "has another character than visible ASCII"})
		}
	}
	if position == "" || len(position) > maxPosition {
		all = append(all, fault.FieldError{Field: "position", Detail: fmt.Sprintf("has %d characters: it must have 1 to %d", len(position), maxPosition)})
	}
	return all
}

// SetMarker moves a marker forward to a position and returns the marker. A position that is not above
// the stored position changes nothing. Positions are compared by their bytes.
func (s *Service) SetMarker(ctx context.Context, user, name, position string) (Marker, error) {
	return s.setMarker(ctx, schema.Marker{User: user, Name: name, Position: position, At: s.access.Now().UTC().Truncate(time.Millisecond)})
}

// ImportMarker moves a marker as SetMarker does, with a past time.
func (s *Service) ImportMarker(ctx context.Context, user, name, position string, at time.Time) error {
	_, err := s.setMarker(ctx, schema.Marker{User: user, Name: name, Position: position, At: at})
	return err
}

func (s *Service) setMarker(ctx context.Context, m schema.Marker) (Marker, error) {
	if all := CheckMarker(m.Name, m.Position); len(all) > 0 {
		return Marker{}, &fault.Error{Kind: fault.Invalid, Fields: all}
	}
	key, profile, asked := schema.MarkerKey(m.User, m.Name), schema.ProfileKey(m.User), m.At
	err := s.access.RetryChanged(func() (changed bool, err error) {
		found, err := s.access.BatchGet(ctx, []table.Key{key, profile}, true)
		if err != nil {
			return false, err
		}
		if _, ok := found[profile]; !ok {
			return false, fault.NoProfile(m.User)
		}
		after := found[profile].Str(schema.AttrAfter)
		m.At = above(after, asked)
		forward := table.Any{table.Absent{}, table.Less{Name: schema.AttrPosition, Value: table.S(m.Position)}}
		if after != "" { // a marker of a former life does not count
			forward = append(forward, table.Less{Name: schema.AttrAsOf, Value: table.N(access.TimeOf(after).UnixMilli() + 1)})
		}
		it, there := found[key]
		if there && !table.Holds(forward, &it) {
			m, err = schema.ParseMarker(it)
			return false, fault.Wrap("table", err)
		}
		if !there {
			if err := ownMarkers().mayMore(ctx, s, m.User, after); err != nil {
				return false, err
			}
		}
		_, err = s.access.Store.Put(ctx, table.PutInput{Item: m.Item(), If: forward})
		_, changed = errors.AsType[*table.ConditionError](err)
		return changed, fault.Wrap("table", err)
	})
	return markerOf(m), err
}

// MarkerOf returns a marker of user.
func (s *Service) MarkerOf(ctx context.Context, user, name string) (Marker, error) {
	it, err := s.access.Get(ctx, schema.MarkerKey(user, name), true)
	if err == nil && it == nil {
		err = fault.NotFoundf("you have no marker %s", name)
	}
	if err != nil {
		return Marker{}, err
	}
	m, err := schema.ParseMarker(*it)
	return markerOf(m), fault.Wrap("table", err)
}

// Markers lists the markers of user, by name.
func (s *Service) Markers(ctx context.Context, user string, in page.Request) (page.List[Marker], error) {
	return listing[Marker]{
		scope: page.ListByUser("markers", user), // a name has the grammar of a user id
		query: table.Query{PK: schema.MarkersPK(user), Consistent: true}, sortKey: schema.MarkerSK, position: func(m Marker) string { return m.Name },
		read: shownAs(schema.ParseMarker, markerOf),
	}.page(ctx, s, in)
}

// DeleteMarker deletes a marker. A call may be repeated.
func (s *Service) DeleteMarker(ctx context.Context, user, name string) error {
	if err := s.access.RequireWriter(ctx, user); err != nil {
		return err
	}
	_, err := s.access.Store.Delete(ctx, table.DeleteInput{Key: schema.MarkerKey(user, name)})
	return fault.Wrap("table", err)
}

// endMarker deletes a marker if no call has moved the marker after the read, and reports whether the
// marker no longer exists.
func (s *Service) endMarker(ctx context.Context, m schema.Marker) (ended bool, err error) {
	same := table.Any{table.Absent{}, table.Equal{Name: schema.AttrAsOf, Value: table.N(m.At.UnixMilli())}}
	_, err = s.access.Store.Delete(ctx, table.DeleteInput{Key: schema.MarkerKey(m.User, m.Name), If: same})
	if _, changed := errors.AsType[*table.ConditionError](err); changed {
		return false, nil
	}
	return err == nil, fault.Wrap("table", err)
}
