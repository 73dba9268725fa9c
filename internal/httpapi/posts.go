package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/page"
	"fanfare/internal/rfc3339"
)

// PostInput is a new post.
type PostInput struct {
	Text      string       `json:"text,omitempty" maxLength:"5000" example:"Hello" doc:"It may be empty or absent if there is an image or data."`
	Images    images       `json:"images,omitempty"`
	Kind      string       `json:"kind,omitempty" pattern:"^[a-z][a-z0-9_.-]{0,31}$" patternDescription:"a kind: 1 to 32 of a-z 0-9 _ . -, a letter first" doc:"A kind of your own, such as album. It never changes." example:"album"`
	Data      Data         `json:"data,omitempty"`
	Mentions  []listedUser `json:"mentions,omitempty" nullable:"false" maxItems:"50" doc:"Ids of users, each once. Unknown ones are kept. They never change."`
	QuoteOf   ulid         `json:"quote_of,omitempty" doc:"A post to quote. To quote a repost is to quote its original. It never changes."`
	ExpiresAt bound        `json:"expires_at,omitempty" doc:"The end of the post, in whole seconds, 60 seconds to 366 days ahead. From then on no call shows the post, its comments and its likes. It never changes, and counts.posts leaves the post out."` //nolint:modernize // huma reads omitempty as optional
}

// end returns the end of the post, or the zero time if the post has no end.
func (in *PostInput) end() (time.Time, error) {
	var faults []FieldError
	end := in.ExpiresAt.parse("expires_at", &faults)
	if in.ExpiresAt.given && len(faults) == 0 && end.Truncate(time.Second).IsZero() { // in the domain this means no end
		faults = append(faults, FieldError{"expires_at", "is " + in.ExpiresAt.text + ": it must be 60 seconds to 366 days ahead"})
	}
	if len(faults) > 0 {
		return end, invalid(faults...)
	}
	return end, nil
}

// PostEdit changes the fields that are given.
type PostEdit struct {
	_      struct{}      `minProperties:"1"`
	Text   *string       `json:"text,omitempty" maxLength:"5000" doc:"An empty text removes the text. A text, an image or data must remain."`
	Images *images       `json:"images,omitempty" doc:"The list replaces the images; an empty list removes them."`
	Data   RemovableData `json:"data,omitempty"` //nolint:modernize // huma reads omitempty as optional
}

// PostPath names a post in the path.
type PostPath struct {
	ID ulid `path:"id" doc:"A post id." example:"01JZ0000000000000000000000"`
}

type postOut struct{ Body client.Post }

func toPost(p feed.Post) client.Post {
	out := client.Post{ID: p.ID, AuthorID: p.AuthorID, Text: p.Text, CreatedAt: p.CreatedAt.UTC(), Kind: p.Kind, Data: []byte(p.Data), Mentions: p.Mentions, ExpiresAt: p.ExpiresAt, RepostOf: p.RepostOf, QuoteOf: p.QuoteOf, OfAuthorID: p.OfAuthor}
	for _, i := range p.Images {
		out.Images = append(out.Images, toImage(i))
	}
	if !p.EditedAt.IsZero() {
		out.EditedAt = p.EditedAt.UTC()
	}
	return out
}

func toPostOut(p feed.Post) *postOut { return &postOut{toPost(p)} }

func (a *API) registerPosts() {
	const tag = "Posts"
	type createIn struct {
		Key  string `header:"Idempotency-Key" minLength:"1" maxLength:"255" pattern:"^[!-~]*$" patternDescription:"visible ASCII" doc:"For 24 hours, all calls with the same key make one post."`
		Body PostInput
	}
	type createOut struct {
		Location string `header:"Location" doc:"The path of the post."`
		Body     client.Post
	}
	create := operation(route{http.MethodPost, "/v1/posts", "create-post", tag, "Post to all your followers"}, http.StatusCreated, http.StatusForbidden, http.StatusNotFound, http.StatusConflict)
	create.Description = usesHour + " The quoted post must live, without a block between you and its author. The first four posts of an hour always pass. A call with an Idempotency-Key that is bound is answered as before, and never 429 for the hour."
	register(a, create,
		func(ctx context.Context, in *createIn) (*createOut, error) {
			end, err := in.Body.end()
			if err != nil {
				return nil, err
			}
			p, err := a.feed.CreatePost(ctx, userOf(ctx), feed.PostInput{
				Content: feed.Content{Text: in.Body.Text, Images: in.Body.Images, Kind: in.Body.Kind, Data: feed.Data(in.Body.Data), Mentions: texts(in.Body.Mentions), ExpiresAt: end}, QuoteOf: string(in.Body.QuoteOf), IdempotencyKey: in.Key,
			})
			if err != nil {
				return nil, err
			}
			return &createOut{a.prefix + "/v1/posts/" + p.ID, toPost(p)}, nil
		})

	type getIn struct {
		PostPath
		Views
	}
	register(a, either[client.Post, client.PostView](a, operation(route{http.MethodGet, "/v1/posts/{id}", "get-post", tag, "Get a post"}, http.StatusOK, http.StatusNotFound)),
		func(ctx context.Context, in *getIn) (*anyOut, error) {
			if in.wanted() {
				view, err := a.views.PostView(ctx, viewerOf(ctx), string(in.ID))
				return anyOf(toPostView, view, err)
			}
			p, err := a.feed.Post(ctx, viewerOf(ctx), string(in.ID))
			return anyOf(toPost, p, err)
		})

	type editIn struct {
		PostPath
		Body PostEdit
	}
	register(a, operation(route{http.MethodPatch, "/v1/posts/{id}", "edit-post", tag, "Change your post"}, http.StatusOK, http.StatusForbidden, http.StatusNotFound, http.StatusConflict),
		func(ctx context.Context, in *editIn) (*postOut, error) {
			edit := feed.PostEdit{Text: in.Body.Text, Images: (*[]feed.Image)(in.Body.Images), Data: in.Body.Data.change()}
			if edit == (feed.PostEdit{}) {
				return nil, invalid(FieldError{"body", "changes nothing: give text, images or data"})
			}
			return converted(toPostOut)(a.feed.EditPost(ctx, userOf(ctx), string(in.ID), edit))
		})

	register(a, operation(route{http.MethodDelete, "/v1/posts/{id}", "delete-post", tag, "Delete your post for good"}, http.StatusNoContent, http.StatusForbidden, http.StatusNotFound, http.StatusConflict),
		func(ctx context.Context, in *PostPath) (*empty, error) {
			return nil, a.feed.DeletePost(ctx, userOf(ctx), string(in.ID))
		})

	type byUserIn struct {
		UserPath
		Page
		Day   string `query:"day" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$" patternDescription:"a date, YYYY-MM-DD" doc:"A day in UTC. It cannot be combined with since or until." example:"2026-07-14"`
		Since bound  `query:"since" doc:"The start of the range, included."`
		Until bound  `query:"until" doc:"The end of the range, excluded."`
		Views
	}
	register(a, either[List[client.Post], List[client.PostView]](a, operation(route{http.MethodGet, "/v1/users/{id}/posts", "list-posts", tag, "List a user's posts, newest first"}, http.StatusOK, http.StatusNotFound)),
		func(ctx context.Context, in *byUserIn) (*anyOut, error) {
			when, p := postRange(in.Day, in.Since, in.Until)
			if p != nil {
				return nil, p
			}
			if in.wanted() {
				page, err := a.views.PostViewsByUser(ctx, viewerOf(ctx), string(in.ID), when, in.request())
				return anyOf(toPostViews, page, err)
			}
			list, err := a.feed.PostsByUser(ctx, viewerOf(ctx), string(in.ID), when, in.request())
			return anyOf(func(l page.List[feed.Post]) List[client.Post] { return toList(toPost, l) }, list, err)
		})
}

// bound is an optional time: an end of a range, or of a post. given distinguishes an absent time from
// Go's zero time, because a client may send the zero time, the first instant of the calendar.
type bound struct {
	text  string
	given bool
}

// Schema implements huma.SchemaProvider. The format is an extension that only the document shows, because
// huma would check a real format by Go's dialect of RFC 3339.
func (bound) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"format": "date-time"}}
}

// Receiver implements huma.ParamWrapper.
func (b *bound) Receiver() reflect.Value { return reflect.ValueOf(&b.text).Elem() }

// OnParamSet implements huma.ParamReactor.
func (b *bound) OnParamSet(isSet bool, _ any) { b.given = isSet }

// UnmarshalJSON implements json.Unmarshaler, for a time in a body.
func (b *bound) UnmarshalJSON(text []byte) error {
	b.given = true
	return json.Unmarshal(text, &b.text)
}

// parse returns the time b, or the zero time if b was not given.
func (b *bound) parse(name string, faults *[]FieldError) time.Time {
	if !b.given {
		return time.Time{}
	}
	at, err := rfc3339.Parse(b.text)
	if err != nil {
		detail := err.Error()
		if strings.Contains(b.text, " ") {
			detail += "; in a query, write its + as %2B"
		}
		*faults = append(*faults, FieldError{name, detail})
	}
	return at
}

// postRange returns the domain's range for a day, or for since and until.
func postRange(day string, since, until bound) (feed.PostRange, *Problem) {
	var faults []FieldError
	from, to := since.parse("since", &faults), until.parse("until", &faults)
	if len(faults) > 0 {
		return feed.PostRange{}, invalid(faults...)
	}
	if day == "" {
		if since.given && until.given && !from.Before(to) {
			return feed.PostRange{}, invalid(FieldError{"since", "must be before until"})
		}
		if until.given {
			to = end(to)
		}
		return feed.PostRange{Since: from, Until: to}, nil
	}
	start, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return feed.PostRange{}, invalid(FieldError{"day", "is not a date"})
	}
	if since.given || until.given {
		return feed.PostRange{}, invalid(FieldError{"day", "cannot be combined with since or until"})
	}
	return feed.PostRange{Since: start, Until: end(start.AddDate(0, 0, 1))}, nil
}

// end returns the end of a range for the domain. The domain takes the zero time for no bound, so end
// replaces it by the Unix epoch: no post is older.
func end(at time.Time) time.Time {
	if at.IsZero() {
		return time.Unix(0, 0)
	}
	return at
}
