package httpapi

import (
	"context"
	"net/http"

	"fanfare/client"
	"fanfare/internal/feed"
)

// MarkerInput is a new position.
type MarkerInput struct {
	Position string `json:"position" minLength:"1" maxLength:"128" pattern:"^[!-~]*$" patternDescription:"visible ASCII" doc:"Such as the id of a post: positions are compared by their bytes." example:"01JZ0000000000000000000000"`
}

type markerOut struct{ Body client.Marker }

func toMarker(m feed.Marker) client.Marker {
	return client.Marker{Name: m.Name, Position: m.Position, UpdatedAt: m.UpdatedAt.UTC()}
}

func toMarkerOut(m feed.Marker) *markerOut { return &markerOut{toMarker(m)} }

// registerMarkers adds the calls for read markers.
func (a *API) registerMarkers() {
	const tag, path = "Markers", "/v1/me/markers/{name}"
	type nameIn struct {
		Name userID `path:"name" doc:"A name of your choice." example:"home"`
	}
	type putIn struct {
		Name userID `path:"name" doc:"A name of your choice." example:"home"`
		Body MarkerInput
	}
	put := operation(route{http.MethodPut, path, "put-marker", tag, "Move a read marker forward"}, http.StatusOK, http.StatusConflict)
	put.Description = "The answer is the marker as it is then. A position that is not above the stored one changes nothing, so devices and repeated calls in any order end at the highest position. " +
		"To go back, delete the marker first. Nobody else sees it. You may have 1,000 markers: one more is 409 of type marker-limit."
	register(a, put, func(ctx context.Context, in *putIn) (*markerOut, error) {
		return converted(toMarkerOut)(a.feed.SetMarker(ctx, userOf(ctx), string(in.Name), in.Body.Position))
	})
	register(a, operation(route{http.MethodGet, path, "get-marker", tag, "Get a read marker"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *nameIn) (*markerOut, error) {
			return converted(toMarkerOut)(a.feed.MarkerOf(ctx, userOf(ctx), string(in.Name)))
		})
	register(a, operation(route{http.MethodDelete, path, "delete-marker", tag, "Delete a read marker"}, http.StatusNoContent, http.StatusConflict),
		func(ctx context.Context, in *nameIn) (*empty, error) {
			return nil, a.feed.DeleteMarker(ctx, userOf(ctx), string(in.Name))
		})
	type listIn struct{ Page }
	register(a, operation(route{http.MethodGet, "/v1/me/markers", "list-markers", tag, "List your read markers, by name"}, http.StatusOK),
		func(ctx context.Context, in *listIn) (*listOut[client.Marker], error) {
			return listed(toMarker)(a.feed.Markers(ctx, userOf(ctx), in.request()))
		})
}
