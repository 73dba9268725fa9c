package pair

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"

	"fanfare/internal/disk"
	"fanfare/internal/stream"
)

// drawing draws messages that a faulty peer sends.
type drawing struct{ *rand.Rand }

func pick[T any](d drawing, of ...T) T { return of[d.IntN(len(of))] }

func (d drawing) junk() []byte {
	data := make([]byte, d.IntN(50))
	for i := range data {
		data[i] = byte(d.Uint32())
	}
	return data
}

func (d drawing) position() stream.Position {
	place := func() stream.Place {
		return stream.Place{Log: pick[uint64](d, 0, 1, 2, 3, 1<<63), Offset: pick(d, 0, d.Uint64N(100), 1<<63)}
	}
	return pick(d, stream.Position{}, stream.Position{Queue: place(), Table: place()})
}

func (d drawing) frames() (data []byte) {
	for range d.IntN(6) {
		at := d.position()
		f := stream.Frame{Kind: stream.Kind(1 + d.IntN(6)), Store: stream.Store(1 + d.IntN(2)), Log: at.Queue.Log, Offset: at.Queue.Offset}
		switch f.Kind {
		case stream.Begins:
			f.Offset *= uint64(d.IntN(2))
		case stream.Bytes:
			f.Data = append(d.junk(), 0)
		case stream.Safe:
			f = stream.SafeAt(at, 0)
		case stream.Seal:
			f = stream.Frame{Kind: stream.Seal}
		default:
		}
		data = stream.Append(data, f)
	}
	return data
}

// message draws a message of a primary, or of a standby.
func (d drawing) message() message {
	m := pick(d,
		message{msgResume, nil}, message{msgSeed, nil}, message{msgPaired, nil}, message{msgWhole, nil}, message{msgRefused, d.junk()},
		message{msgFrames, d.frames()}, message{msgFrames, d.frames()}, message{msgBeat, d.number(d.Uint64N(9))}, message{msgTakeOver, d.number(2)},
		message{msgFile, pick(d, []byte("queue/OPTIONS"), []byte("table/1.sst"), []byte("dev-secret"), []byte("queue/.."), []byte("ROLE"))}, message{msgContent, d.junk()},
		message{msgAck, appendAck(nil, d.position(), pick(d, 0, d.Uint64N(9), 1|noPromise))}, message{msgTaken, d.position().Append(nil)}, message{msgBye, nil},
		message{kind(d.Uint32()), d.junk()},
	)
	if d.IntN(10) == 0 {
		m.data = pick(d, nil, d.junk())
	}
	return m
}

// peer draws a session: often one that begins as a sound peer begins it.
func (d drawing) peer(hello Hello, begin ...message) peer {
	p := peer{hello: hello}
	if d.IntN(4) > 0 {
		p.messages = append(p.messages, begin[:1+d.IntN(len(begin))]...)
	}
	for range d.IntN(8) {
		p.messages = append(p.messages, d.message())
	}
	if d.IntN(4) == 0 {
		at := d.position()
		p.hello.Mode, p.hello.Term = pick(d, ModeAlone, ModePaired, ModeSeeding, ModeFollowing), uint64(d.IntN(3))
		p.hello.Role, p.hello.Peer = pick(d, RolePrimary, RoleStandby), pick(d, "", "A", "B")
		p.hello.Queue, p.hello.Table = at.Queue, at.Table
	}
	return p
}

// operate draws a call of an operator.
func (d drawing) operate(ctx context.Context, s *Standby) {
	switch d.IntN(8) {
	case 0:
		_ = s.Promote(ctx, d.IntN(2) == 0) // any error will do
	case 1:
		near, far := net.Pipe()
		go peer{hello: primaryHello(ModeAlone)}.serve(ctx, far)
		_ = s.Answer(ctx, near) // any error will do
	case 2:
		soon, cancel := context.WithTimeout(ctx, moment)
		defer cancel()
		_ = s.AskToHandOver(soon) // any error will do
	default:
		s.Status()
	}
}

// ask draws a call of the process.
func (d drawing) ask(ctx context.Context, p *Primary) {
	soon, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	switch d.IntN(5) {
	case 0:
		p.SetCheckpoint(func(_ context.Context, dir string) error {
			return errors.Join(disk.MakeDir(p.cfg.FS, p.cfg.FS.PathJoin(dir, "queue")), disk.MakeDir(p.cfg.FS, p.cfg.FS.PathJoin(dir, "table")))
		})
	case 1:
		_ = p.Paired(soon) // any error will do
	case 2:
		p.Confirmed(stream.Table, stream.Place{Log: 2, Offset: uint64(d.IntN(20))})
	case 3:
		_, _ = p.Promised(), p.PromiseEnds() // only their answers matter to others
	default:
		p.Status()
	}
}
