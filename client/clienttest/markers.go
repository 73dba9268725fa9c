package clienttest

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"fanfare/client"
	"fanfare/internal/id"
)

func (s *Server) putMarker(user string, r *http.Request) (int, any) {
	name := r.PathValue("name")
	var in struct {
		Position string `json:"position"`
	}
	err := decode(r, &in)
	field, unknown := unknownField(err)
	switch {
	case !id.ValidUser(name):
		return fail(http.StatusUnprocessableEntity, "name")
	case unknown:
		return fail(http.StatusUnprocessableEntity, field)
	case err != nil, in.Position == "", len(in.Position) > 128, slices.ContainsFunc([]byte(in.Position), func(c byte) bool { return c < '!' || c > '~' }):
		return fail(http.StatusUnprocessableEntity, "position")
	}
	if s.markers[user] == nil {
		s.markers[user] = map[string]client.Marker{}
	}
	if in.Position > s.markers[user][name].Position {
		s.markers[user][name] = client.Marker{Name: name, Position: in.Position, UpdatedAt: time.Now().UTC()}
	}
	return http.StatusOK, s.markers[user][name]
}

func (s *Server) marker(user string, r *http.Request) (int, any) {
	m, ok := s.markers[user][r.PathValue("name")]
	if !ok {
		return fail(http.StatusNotFound)
	}
	return http.StatusOK, m
}

func (s *Server) deleteMarker(user string, r *http.Request) (int, any) {
	delete(s.markers[user], r.PathValue("name"))
	return http.StatusNoContent, nil
}

func (s *Server) listMarkers(user string, r *http.Request) (int, any) {
	all := make([]client.Marker, 0, len(s.markers[user]))
	for _, m := range s.markers[user] {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b client.Marker) int { return cmp.Compare(a.Name, b.Name) })
	return page(r, all, func(m client.Marker) string { return m.Name })
}
