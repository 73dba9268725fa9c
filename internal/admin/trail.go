package admin

import (
	"context"

	"go.uber.org/zap"
)

// Trail logs the changes of operators: a line for each change, with the operator, the action, its
// target and its size. A line has no payload, and no log level hides the line. The zero Trail logs nothing.
type Trail struct{ log *zap.Logger }

// NewTrail returns a trail in a log.
func NewTrail(log *zap.Logger) Trail { return Trail{log} }

type actorKey struct{}

// Actor is the caller of a change. Neither field is verified: the admin address needs no
// token.
type Actor struct {
	// Name is the name that the caller gives itself, "" for none.
	Name string
	// From is the address of a caller over the network.
	From string
}

// WithActor returns a context for the changes of an actor.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

func actorOf(ctx context.Context) Actor {
	a, ok := ctx.Value(actorKey{}).(Actor)
	if !ok {
		return Actor{}
	}
	return a
}

// Note writes the line of a call that made a number of changes before it ended with err. A failed
// call without a change has no line.
func (t Trail) Note(ctx context.Context, action string, changed int, err error, fields ...zap.Field) {
	if t.log == nil || err != nil && changed == 0 {
		return
	}
	who := actorOf(ctx)
	fields = append([]zap.Field{zap.String("action", action), zap.String("operator", who.Name), zap.String("from", who.From)}, fields...)
	t.log.Log(max(zap.InfoLevel, t.log.Level()), "an operator made a change", append(fields, zap.Error(err))...)
}
