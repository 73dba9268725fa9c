package httpapi

import (
	"context"
	"net/http"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/view"
)

// Comment is a comment on a post.
type Comment struct {
	ID        string    `json:"id" doc:"A ULID."`
	PostID    string    `json:"post_id"`
	AuthorID  string    `json:"author_id"`
	Text      string    `json:"text"`
	CreatedAt time.Time `json:"created_at"`
	Data      Data      `json:"data,omitempty"`
	Mentions  []string  `json:"mentions,omitempty" nullable:"false" doc:"Ids of users, also of unknown ones."`
	Author    *UserView `json:"author,omitempty" doc:"Only in a list of a post's comments with expand=view."`
	Post      *PostView `json:"post,omitempty" doc:"Only in a list of a user's comments with expand=view."`
}

// CommentInput is a new comment.
type CommentInput struct {
	Text     string   `json:"text" minLength:"1" maxLength:"5000" example:"Well said"`
	Data     Data     `json:"data,omitempty"`
	Mentions []string `json:"mentions,omitempty" nullable:"false" maxItems:"50" pattern:"^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0,63}$" patternDescription:"a user id" doc:"Ids of users, each once. Unknown ones are kept."`
}

func toComment(c feed.Comment) Comment {
	return Comment{ID: c.ID, PostID: c.PostID, AuthorID: c.AuthorID, Text: c.Text, CreatedAt: c.CreatedAt.UTC(), Data: Data(c.Data), Mentions: c.Mentions}
}

func toCommentOnPost(c view.CommentOnPost) Comment {
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
		Body     Comment
	}
	create := operation(route{http.MethodPost, "/v1/posts/{id}/comments", "create-comment", tag, "Comment on a post"}, http.StatusCreated, http.StatusNotFound, http.StatusConflict)
	create.Description = refusesBlocked + " " + usesHour
	register(a, create,
		func(ctx context.Context, in *createIn) (*createOut, error) {
			c, err := a.feed.AddComment(ctx, userOf(ctx), in.ID, feed.CommentInput{Text: in.Body.Text, Data: string(in.Body.Data), Mentions: in.Body.Mentions})
			if err != nil {
				return nil, err
			}
			return &createOut{"/v1/posts/" + c.PostID + "/comments/" + c.ID, toComment(c)}, nil
		})

	type ofPostIn struct {
		PostPath
		Page
		Views
	}
	register(a, operation(route{http.MethodGet, "/v1/posts/{id}/comments", "list-comments", tag, "List the comments on a post, oldest first"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *ofPostIn) (*listOut[Comment], error) {
			list, err := a.feed.Comments(ctx, in.ID, in.request())
			if err != nil || !in.wanted() {
				return listed(toComment)(list, err)
			}
			return listed(toCommentWithAuthor)(a.views.CommentViews(ctx, userOf(ctx), list))
		})

	type deleteIn struct {
		PostPath
		Comment string `path:"comment" pattern:"^[0-7][0-9A-HJKMNP-TV-Z]{25}$" patternDescription:"a ULID" doc:"A comment id." example:"01JZ0000000000000000000001"`
	}
	register(a, operation(route{http.MethodDelete, "/v1/posts/{id}/comments/{comment}", "delete-comment", tag, "Delete your comment, or a comment on your post"}, http.StatusNoContent, http.StatusForbidden, http.StatusNotFound, http.StatusConflict),
		func(ctx context.Context, in *deleteIn) (*empty, error) {
			return nil, a.feed.DeleteComment(ctx, userOf(ctx), in.ID, in.Comment)
		})

	type byUserIn struct {
		UserPath
		Page
		Views
	}
	register(a, operation(route{http.MethodGet, "/v1/users/{id}/comments", "list-user-comments", tag, "List a user's comments, newest first"}, http.StatusOK, http.StatusNotFound),
		func(ctx context.Context, in *byUserIn) (*listOut[Comment], error) {
			if in.wanted() {
				return listed(toCommentOnPost)(a.views.CommentViewsByUser(ctx, userOf(ctx), in.ID, in.request()))
			}
			return listed(toComment)(a.feed.CommentsByUser(ctx, in.ID, in.request()))
		})
}
