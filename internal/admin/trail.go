package admin

import (
	"context"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/feed/delivery"
	"fanfare/internal/ops/audit"
)

// Trail logs the changes of operators: a line for each change, with the operator, the action, its
// target and its size. A line has no payload, and no log level hides the line.
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
	if err != nil && changed == 0 {
		return
	}
	who := actorOf(ctx)
	fields = append([]zap.Field{zap.String("action", action), zap.String("operator", who.Name), zap.String("from", who.From)}, fields...)
	t.log.Log(max(zap.InfoLevel, t.log.Level()), "an operator made a change", append(fields, zap.Error(err))...)
}

// Letters returns letters with a line for each change.
func (t Trail) Letters(letters Operator) Operator { return trailedLetters{letters, t} }

type trailedLetters struct {
	Operator

	trail Trail
}

func (l trailedLetters) Redrive(ctx context.Context, topic string, s Selection) (Redriven, error) {
	done, err := l.Operator.Redrive(ctx, topic, s)
	l.trail.Note(ctx, "redrive", done.Sent, err, append(s.fields(topic), zap.Int("sent", done.Sent), zap.Int("refused", done.Refused))...)
	return done, err
}

func (l trailedLetters) Drop(ctx context.Context, topic string, s Selection) (int, error) {
	dropped, err := l.Operator.Drop(ctx, topic, s)
	l.trail.Note(ctx, "drop", dropped, err, append(s.fields(topic), zap.Int("dropped", dropped))...)
	return dropped, err
}

// fields describes the selection, but omits the text of its reason, which may come from a
// payload.
func (s Selection) fields(topic string) []zap.Field {
	return []zap.Field{zap.String("topic", topic), zap.Int("ids", len(s.IDs)), zap.Bool("all", s.All), zap.Bool("by_reason", s.Reason != "")}
}

// Operations returns operations with a line for each change.
func (t Trail) Operations(o Operations) Operations { return trailedOperations{o, t} }

type trailedOperations struct {
	Operations

	trail Trail
}

func (o trailedOperations) Reconcile(ctx context.Context, since, until time.Time, cursor string, limit int) (delivery.Reconciled, error) {
	done, err := o.Operations.Reconcile(ctx, since, until, cursor, limit)
	if cursor == "" || done.Published > 0 { // pages of a reconcile without a change are not logged
		o.trail.Note(ctx, "reconcile", done.Published, err, zap.Time("since", since), zap.Time("until", until), zap.Int("checked", done.Checked), zap.Int("published", done.Published))
	}
	return done, err
}

func (o trailedOperations) Verify(ctx context.Context, in Verification, event func(VerifyEvent) error) (audit.Summary, error) {
	sum, err := o.Operations.Verify(ctx, in, event)
	if in.Repair {
		o.trail.Note(ctx, "verify --repair", len(sum.Mended), err, zap.Int("items", sum.Items), zap.Any("mended", sum.Mended), zap.Int("left", sum.Left))
	}
	return sum, err
}

// Backups returns a Backuper with a line for each backup, nil for nil.
func (t Trail) Backups(b Backuper) Backuper {
	if b == nil {
		return nil
	}
	return trailedBackups{b, t}
}

type trailedBackups struct {
	Backuper

	trail Trail
}

func (b trailedBackups) Backup(ctx context.Context, dir string) (Backup, error) {
	made, err := b.Backuper.Backup(ctx, dir)
	b.trail.Note(ctx, "backup", 0, err, zap.String("dir", dir), zap.Int("files", made.Files), zap.Int64("bytes", made.Bytes), zap.Int64("held_ms", made.HeldMillis))
	return made, err
}

// Pairs returns a Pair with a line for each promotion, nil for nil.
func (t Trail) Pairs(p Pair) Pair {
	if p == nil {
		return nil
	}
	return trailedPair{p, t}
}

type trailedPair struct {
	Pair

	trail Trail
}

func (p trailedPair) Promote(ctx context.Context, in Promotion) error {
	err := p.Pair.Promote(ctx, in)
	p.trail.Note(ctx, "promote", 0, err, zap.Bool("primary_is_gone", in.PrimaryIsGone), zap.Bool("accept_loss", in.AcceptLoss))
	return err
}
