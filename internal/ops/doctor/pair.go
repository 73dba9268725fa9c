package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"time"

	"fanfare/internal/objects"
	"fanfare/internal/pair"
)

// The differences of the clocks of a pair at which the doctor warns, and at which the two machines do not pair.
const (
	clockWarns  = time.Second
	clockFaults = time.Minute
)

// peer tries to reach the other machine of a pair with the certificates of this machine, and compares the clocks.
func (e *examination) peer(ctx context.Context) {
	keys := pair.Keys{Cert: e.cfg.PeerCert, Key: e.cfg.PeerKey, CA: e.cfg.PeerCA}
	if err := keys.Check(); err != nil {
		e.note(LevelFault, "pair", "make the files by fanfare pair keys, and copy them to both machines", "%w", err)
		return
	}
	dial := func(ctx context.Context) (net.Conn, error) { return keys.Dial(ctx, e.cfg.Peer) }
	asked := e.now()
	hello, err := pair.Ask(ctx, dial, pair.AskingHello(nil, 0, "doctor"))
	if op, away := errors.AsType[*net.OpError](err); away && op.Op == "dial" {
		e.note(LevelWarning, "pair", "start fanfare up there, or let this machine reach FANFARE_PEER", "%w", err)
		return
	}
	if err != nil {
		e.note(LevelFault, "pair", "copy the files of one fanfare pair keys to both machines, and use the same fanfare on both", "%w", err)
		return
	}
	e.ok("pair", "%s is %s, %s, term %d", e.cfg.Peer, hello.Role, hello.Mode, hello.Term)
	e.compareClocks(time.UnixMilli(hello.Clock), asked, e.now())
}

// compareClocks notes how far the clock of the other machine, which was read between asked and answered, is from the own clock.
func (e *examination) compareClocks(peer, asked, answered time.Time) {
	const mend = "let chrony or another client of NTP set both clocks"
	off := max(asked.Sub(peer), peer.Sub(answered), 0)
	switch {
	case off > clockFaults:
		e.note(LevelFault, "clock of the pair", mend, "the clocks of the two machines differ by %s, so they do not pair", off)
	case off > clockWarns:
		e.note(LevelWarning, "clock of the pair", mend, "the clocks of the two machines differ by %s", off)
	default:
		e.ok("clock of the pair", "the clocks of the two machines agree")
	}
}

// register tries the conditional writes of a register. The object that it creates is deleted again.
func (e *examination) register(ctx context.Context) {
	location, err := objects.Parse(e.cfg.Register)
	if err != nil { // the configuration has named this fault
		return
	}
	store, err := location.OpenConditional(ctx)
	if err != nil {
		e.note(LevelFault, "register", "see docs/CONFIGURATION.md, Variables of AWS and Go", "%w", err)
		return
	}
	name := "doctor/" + rand.Text()
	err = trySwaps(ctx, store, name)
	if all, openErr := location.Open(ctx); openErr == nil {
		err = errors.Join(err, all.Delete(ctx, name))
	}
	if err != nil {
		e.note(LevelFault, "register", "allow the calls of fanfare iam policy --daemon up, use a store that knows If-Match, or correct FANFARE_REGISTER", "%w", err)
		return
	}
	e.ok("register", "%s writes only on condition", e.cfg.Register)
}

// errUnconditional means that a store does not have the guarantee on which the register depends (P16).
var errUnconditional = errors.New("the store ignores If-None-Match or If-Match, so both machines could be primary")

// trySwaps makes each call of a register.
func trySwaps(ctx context.Context, store objects.Conditional, name string) error {
	first, err := store.Swap(ctx, name, "", objects.Bytes([]byte(rand.Text())))
	if err != nil {
		return err
	}
	if _, err := store.Swap(ctx, name, "", objects.Bytes([]byte(rand.Text()))); !errors.Is(err, objects.ErrChanged) {
		return errors.Join(errUnconditional, err)
	}
	second, err := store.Swap(ctx, name, first, objects.Bytes([]byte(rand.Text())))
	if err != nil {
		return err
	}
	if _, err := store.Swap(ctx, name, first, objects.Bytes([]byte(rand.Text()))); !errors.Is(err, objects.ErrChanged) {
		return errors.Join(errUnconditional, err)
	}
	_, now, err := store.Fetch(ctx, name, 64)
	if err == nil && now != second {
		err = errUnconditional
	}
	return err
}
