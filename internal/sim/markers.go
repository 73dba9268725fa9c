package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file has the operations on read markers, and their part of the oracle: no write lowers a
// marker, and no marker is below its highest answered position.

// marked is the state of a marker according to the answers.
type marked struct {
	// least is the highest answered position since the last deletion began.
	least string
	// asked has all positions that calls have asked for.
	asked []string
	// doubtful means that a deletion had no answer and may still have an effect.
	doubtful bool
}

// marker moves a marker from two devices, where the second device makes another call, or deletes
// the marker.
func (l *workload) marker(r *rand.Rand, p planned) *operation {
	name := []string{"home", "chat"}[r.IntN(2)]
	key := schema.MarkerKey(p.user, name)
	if l.marks[key] == nil {
		l.marks[key] = &marked{}
	}
	m := l.marks[key]
	if name == "chat" && r.IntN(4) == 0 {
		before := m.doubtful
		m.least, m.doubtful = "", true
		return &operation{
			name: "unmark " + name, user: p.user,
			do:     func(ctx context.Context, s *domain) error { return s.DeleteMarker(ctx, p.user, name) },
			settle: func(err error) { m.doubtful = before || err != nil },
		}
	}
	drawn := func() string { return fmt.Sprintf("%02d", r.IntN(100)) }
	position, other := drawn(), drawn()
	m.asked = append(m.asked, position, other)
	before := m.least
	var got feed.Marker
	return &operation{
		name: "mark " + name + " " + position, user: p.user,
		do: beside(func(ctx context.Context, s *domain) (err error) {
			got, err = s.SetMarker(ctx, p.user, name, position)
			return err
		}, func(ctx context.Context, s *domain) error {
			_, err := s.SetMarker(ctx, p.user, name, other)
			return err
		}),
		settle: func(err error) {
			if err != nil {
				return
			}
			if got.Position < position || got.Position < before && !m.doubtful {
				l.fail("I5", "the marker %s of %s was answered %s, after %s and %s", name, p.user, got.Position, before, position)
			}
			m.least = max(m.least, got.Position)
		},
	}
}

// sawMarker checks a write of a marker: a marker never moves back.
func (w *World) sawMarker(key table.Key, now *table.Item) {
	old := w.items[key]
	if _, ok := schema.MarkerOfSK(key.SK); !ok || old == nil || now == nil || key.PK == schema.MarkersPK(leaver) {
		return
	}
	if was, is := old.Str(schema.AttrPosition), now.Str(schema.AttrPosition); is < was {
		w.load.fail("I5", "the marker %v goes back from %s to %s", key, was, is)
	}
}

// checkMarkers checks that markers match their answers (I5), and that reads show the markers.
func (w *World) checkMarkers(ctx context.Context, service *domain) {
	r := w.reader(service)
	for _, user := range w.load.users {
		want := []string{}
		for _, it := range w.partition(schema.MarkersPK(user)) {
			m, err := schema.ParseMarker(it)
			if err != nil || !slices.Contains(w.load.marks[it.Key].asked, m.Position) {
				w.load.fail("I5", "%s has the marker %+v, and nobody asked for it: %v", user, m, err)
			}
			want = append(want, m.Name+" "+m.Position)
		}
		got, err := whole(r, func(page page.Request) (page.List[feed.Marker], error) { return service.Markers(ctx, user, page) })
		r.same("I5", "markers of "+user, lines(got, func(m feed.Marker) string { return m.Name + " " + m.Position }), err, want)
		for _, name := range []string{"home", "chat"} {
			m := w.load.marks[schema.MarkerKey(user, name)]
			if m == nil {
				continue
			}
			is, err := service.MarkerOf(ctx, user, name)
			if none, ok := errors.AsType[*fault.Error](err); ok && none.Kind == fault.NotFound {
				err = nil
			}
			if err != nil || is.Position < m.least && !m.doubtful {
				w.load.fail("I5", "the marker %s of %s is at %q, and %s was answered: %v", name, user, is.Position, m.least, err)
			}
		}
	}
}
