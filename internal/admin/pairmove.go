package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/pair"
)

// Move is a move of a pair to another register, as an operator wants it.
type Move struct {
	// To is the address of the new register.
	To string `json:"to"`
	// RegisterIsGone means that nobody will see the present register again, and StandbyIsGone that the disk of the standby is lost.
	RegisterIsGone bool `json:"register_is_gone"`
	StandbyIsGone  bool `json:"standby_is_gone"`
}

// MovePair makes the primary of a pair, and before it its standby, use another register. It returns when the primary begins again; the command waits
// until it serves.
func MovePair() Op[Move, pair.Status] {
	return Op[Move, pair.Status]{
		Name: "move", Route: "POST /admin/pair/move", Form: `{"to": …, "register_is_gone": …, "standby_is_gone": …}`,
		Params: func(in *Move) []Param {
			return []Param{
				{"to", &in.To, "the address of the new register, s3://bucket/prefix"},
				{"register_is_gone", &in.RegisterIsGone, "the present register is gone for good"},
				{"standby_is_gone", &in.StandbyIsGone, "the disk of the standby is gone"},
			}
		},
		Has: hasPair, Absent: noPair, Long: true, Fails: http.StatusPreconditionFailed,
		Check: func(in Move) error {
			if in.To == "" {
				return invalid("the new register is missing: name it with --to s3://bucket/prefix")
			}
			return nil
		},
		Run: func(ctx context.Context, d Domain, in Move) (pair.Status, error) {
			s := d.Pair.PairStatus()
			return s, d.Pair.Move(ctx, in)
		},
		Note: func(in Move, _ pair.Status) (int, []zap.Field) {
			return 0, []zap.Field{zap.String("to", in.To), zap.Bool("register_is_gone", in.RegisterIsGone), zap.Bool("standby_is_gone", in.StandbyIsGone)}
		},
		Command: Command[Move, pair.Status]{
			Words: Words{Use: "pair move", Short: "Make a pair use another register", Long: moveHelp, Embedded: true},
			Ask: func(ctx context.Context, at Process, in Move) (string, error) {
				s, err := PairStatus().Do(ctx, at, None{})
				text := describe(s) + ". "
				if in.RegisterIsGone {
					text += "The present register must never come back: its entry does not end. "
				}
				return text, err
			},
			Then: awaitMoved,
			Text: func(pair.Status) string {
				return "the pair uses the new register: set FANFARE_REGISTER to it on both machines"
			},
		},
	}
}

const moveHelp = `Makes the primary, whose process must run, and its standby use the register at another address: a place
without an entry, which both machines reach with the credentials and the endpoint that they have. The
standby stores the address first, then the primary does. The entry of the former register ends, and both
begin again with the new one; for this moment calls get 503. The process of a machine whose
FANFARE_REGISTER still has the former address uses the new one, too. If the command fails, repeat it.

With --register-is-gone the former register need not answer. With --standby-is-gone the primary is alone,
and the disk of its standby is lost or deleted.

It prints the state, and asks, unless --yes is given. It ends when the primary serves.`

// awaitMoved waits until the primary has begun again, in a later term.
func awaitMoved(ctx context.Context, at Process, s pair.Status) error {
	client, ok := at.(*Client)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, mostStart)
	defer cancel()
	for {
		now, err := PairStatus().Do(ctx, client, None{})
		if err == nil && now.Term > s.Term {
			return client.AwaitReady(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the primary has stored the new register, and has not begun again in %s: look at its log: %w", mostStart, errors.Join(err, context.Cause(ctx)))
		case <-time.After(readyPoll):
		}
	}
}
