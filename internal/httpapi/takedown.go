package httpapi

import (
	"context"
	"net/http"

	"go.uber.org/zap"

	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/obs"
	"fanfare/internal/trace"
)

// TakeDownInput has the reason of a take-down.
type TakeDownInput struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" example:"It advertises forged shoes." doc:"One line that shows something, as a name does. The author sees it."`
}

func (a *API) registerTakeDown() {
	type takeDownIn struct {
		PostPath
		Body TakeDownInput
	}
	type takeDownOut struct{ Body delivery.TakenDown }
	takeDown := operation(route{http.MethodPut, "/v1/posts/{id}/takedown", "take-down-post", "Posts", "Take a post of any user down, as a service"}, http.StatusOK, http.StatusNotFound)
	takeDown.Description = "Only for a token of a service with the scope fanfare:delete besides, unless the service names other ones. The service acts for nobody here: the header Fanfare-User has no effect. " +
		"The post is deleted for good, as by its author, who sees the reason in the delivery of the post. The first reason stays: a repetition is answered with it. A post that its author deleted before, or that has ended, is 404. " +
		"A PostTakenDown is among the events for other programs some six minutes later, when the comments and likes are gone, too."
	takeDown.Metadata = map[string]any{actsAlone: "it takes no post down"}
	register(a, takeDown, func(ctx context.Context, in *takeDownIn) (*takeDownOut, error) {
		if callerOf(ctx).service == feed.Operator {
			return nil, forbidden("the sub of the token is " + feed.Operator + ", and authors read this name as the one of an operator: give the service another sub")
		}
		// The level is at least the logger's own, so no FANFARE_LOG_LEVEL hides the line.
		a.log.Log(max(zap.InfoLevel, a.log.Level()), "takes a post down", zap.String("service", callerOf(ctx).service), zap.String("post_id", string(in.ID)),
			zap.String("request_id", obs.RequestID(ctx)), trace.ID(ctx))
		down, err := a.feed.TakeDown(ctx, callerOf(ctx).service, string(in.ID), in.Body.Reason)
		return &takeDownOut{delivery.TakenDown(down)}, err
	})
}
