package httpapi

import (
	"context"
	"net/http"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/internal/feed/view"
)

// CommentInput is a new comment.
type CommentInput struct {
	Text     string       `json:"text" minLength:"1" maxLength:"5000" example:"Well said"`
	Data     Data         `json:"data,omitempty"`
	Mentions []listedUser `json:"mentions,omitempty" nullable:"false" maxItems:"50" doc:"Ids of users, each once. Unknown ones are kept."`
}

func toComment(c feed.Comment) client.Comment {
	return client.Comment{ID: c.ID, PostID: c.PostID, AuthorID: c.AuthorID, Text: c.Text, CreatedAt: c.CreatedAt.UTC(), Data: []byte(c.Data), Mentions: c.Mentions}
}

func toCommentOnPost(c view.CommentOnPost) client.Comment {
	out, post := toComment(c.Comment), toPostView(c.On)
	out.Post = &post
	return out
}

func (a *API) registerComments() {
	const tag = "Comments"
	type createIn struct {
		PostPath
		Body CommentInput
	}
	type createOut struct {
		Location string `header:"Location" doc:"The path of the comment, for DELETE."`
		Body     client.Comment
	}
	create := operation(route{http.MethodPost, "/v1/posts/{id}/comments", "create-comment", tag, "Comment on a post"}, http.StatusCreated, http.StatusNotFound, http.StatusConflict)
	create.Description = refusesBlocked + " " + usesHour
	register(a, create,
		func(ctx context.Context, in *createIn) (*createOut, error) {
			c, err := a.feed.AddComment(ctx, userOf(ctx), string(in.ID), feed.CommentInput{Text: in.Body.Text, Data: string(in.Body.Data), Mentions: texts(in.Body.Mentions)})
			if err != nil {
				return nil, err
			}
			return &createOut{a.prefix + "/v1/posts/" + c.PostID + "/comments/" + c.ID, toComment(c)}, nil
		})

	type ofPostIn struct {
		PostPath
		Page
		Views
	}
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/comments", "list-comments", tag, "List the comments on a post, oldest first"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *ofPostIn) (*listOut[client.Comment], error) {
			list, err := a.feed.Comments(ctx, viewerOf(ctx), string(in.ID), in.request())
			if err != nil || !in.wanted() {
				return listed(toComment)(list, err)
			}
			return listed(toCommentWithAuthor)(a.views.CommentViews(ctx, userOf(ctx), list))
		})

	type deleteIn struct {
		PostPath
		Comment ulid `path:"comment" doc:"A comment id." example:"01JZ0000000000000000000001"`
	}
	register(a, operation(route{http.MethodDelete, "/v1/posts/{id}/comments/{comment}", "delete-comment", tag, "Delete your comment, or a comment on your post"}, http.StatusNoContent, http.StatusForbidden, http.StatusNotFound, http.StatusConflict),
		func(ctx context.Context, in *deleteIn) (*empty, error) {
			return nil, a.feed.DeleteComment(ctx, userOf(ctx), string(in.ID), string(in.Comment))
		})

	type byUserIn struct {
		UserPath
		Page
		Views
	}
	register(a, operation(route{http.MethodGet, "/v1/users/{id}/comments", "list-user-comments", tag, "List a user's comments, newest first"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *byUserIn) (*listOut[client.Comment], error) {
			if in.wanted() {
				return listed(toCommentOnPost)(a.views.CommentViewsByUser(ctx, viewerOf(ctx), string(in.ID), in.request()))
			}
			return listed(toComment)(a.feed.CommentsByUser(ctx, viewerOf(ctx), string(in.ID), in.request()))
		})
}
