package pair

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"fanfare/internal/datadir"
	"fanfare/internal/stream"
)

// protocol is the version of the messages between two machines.
const protocol = 1

const (
	// maxHello is the largest length of a hello in bytes.
	maxHello = 64 << 10
	// greetTime is the time for the exchange of two hellos.
	greetTime = 5 * time.Second
)

// Hello is the first message in both directions.
type Hello struct {
	Protocol int    `json:"protocol"`
	Lineage  string `json:"lineage"`
	Disk     string `json:"disk"`
	Role     string `json:"role"`
	Mode     string `json:"mode"`
	Term     uint64 `json:"term"`
	Peer     string `json:"peer"`
	// Since is the first term since which a primary has been the primary without a break, 0 if that is Term.
	Since uint64 `json:"since,omitempty"`
	// Queue and Table are the place up to which a standby has the stream on its disk, or at which the stream of
	// a primary ends.
	Queue       stream.Place `json:"queue"`
	Table       stream.Place `json:"table"`
	FrameFormat int          `json:"frame_format"`
	DataFormat  int          `json:"data_format"`
	Version     string       `json:"version"`
	// Announced is the last safe point that a standby has from its primary. Began is the place at which the logs of a primary
	// ended when its process began.
	Announced places `json:"announced,omitzero"`
	Began     places `json:"began,omitzero"`
	// Register is the Name of the register that the machine asks.
	Register string `json:"register,omitempty"`
	// Lease is the duration of a promise, in milliseconds.
	Lease int64 `json:"lease_ms,omitempty"`
	// Process is another text in each process, so that a machine knows itself. Empty if the machine has no role yet.
	Process string `json:"process,omitempty"`
	// Moved means that the directory looks as after a boot or a move, or that it is a clone of a whole disk.
	Moved bool `json:"moved,omitempty"`
	// Follows is the Process of the primary with which a standby has a session, empty for none.
	Follows string `json:"follows,omitempty"`
	// Clock is the time of the machine, in milliseconds since 1970.
	Clock int64 `json:"clock"`
	// Secret proves that the machine has the same FANFARE_DEV_SECRET; empty without one.
	Secret  []byte    `json:"secret,omitempty"`
	secret  string    // the own secret, which is not sent
	arrived time.Time // of the hello of a peer
	// Ask means that the connection ends after the hellos.
	Ask bool `json:"ask,omitempty"`
	// HandOver asks the primary to hand over, together with Ask. Only its paired standby may ask for it.
	HandOver bool `json:"hand_over,omitempty"`
}

// places is a position in a hello.
type places struct {
	Queue stream.Place `json:"queue"`
	Table stream.Place `json:"table"`
}

// hello returns the hello of a role.
func (r *Role) hello(at stream.Position, dataFormat int, version string) Hello {
	return Hello{
		Protocol: protocol, Lineage: r.Lineage, Disk: r.Disk, Role: r.Role, Mode: r.Mode, Term: r.Term, Peer: r.Peer, Since: r.Since,
		Queue: at.Queue, Table: at.Table, FrameFormat: stream.Format, DataFormat: dataFormat, Version: version, Clock: time.Now().UnixMilli(), Process: r.process, Moved: r.likeness() != datadir.Original,
	}
}

// position returns the position of the hello.
func (h Hello) position() stream.Position { return stream.Position{Queue: h.Queue, Table: h.Table} }

// Ask asks the other machine for its role. own is the hello of a role without positions.
func Ask(ctx context.Context, dial func(context.Context) (net.Conn, error), own Hello) (peer Hello, err error) {
	conn, err := dial(ctx)
	if err != nil {
		return peer, fmt.Errorf("ask the other machine: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	defer context.AfterFunc(ctx, func() { conn.Close() })() //nolint:errcheck // the exchange fails then
	own.Ask = true
	return greet(conn, own)
}

// AskingHello returns the hello with which a machine asks another machine. role may be nil.
func AskingHello(role *Role, dataFormat int, version string) Hello {
	if role == nil {
		role = &Role{}
	}
	return role.hello(stream.Position{}, dataFormat, version)
}

// greet sends the own hello and reads the hello of the peer.
func greet(conn net.Conn, own Hello) (peer Hello, err error) {
	if err := conn.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return peer, err
	}
	text, err := json.Marshal(own)
	if err != nil {
		return peer, err
	}
	sent := make(chan error, 1)
	go func() { // ends at the deadline at the latest
		_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
		sent <- err
	}()
	peer, err = readHello(conn)
	if err = errors.Join(<-sent, err); err != nil {
		return peer, fmt.Errorf("exchange hellos with the other machine: %w", err)
	}
	peer.arrived = time.Now()
	return peer, conn.SetDeadline(time.Time{})
}

func readHello(from io.Reader) (h Hello, err error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return h, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxHello {
		return h, fmt.Errorf("%w: a hello of %d bytes", ErrDamaged, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(from, text); err != nil {
		return h, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return h, nil
}

// reigned reports whether a primary with this hello was the primary in a term, too.
func (h Hello) reigned(term uint64) bool {
	return term == h.Term || h.Since != 0 && h.Since <= term && term < h.Term
}

// rewound returns ErrRewound if a primary lacks writes that it had announced to a standby as synced (P9). An old copy that has served
// has newer logs than the standby, so a safe point from before its start is compared with the logs of that time.
func rewound(primary, standby Hello) error {
	if standby.Mode == ModeSeeding || standby.Peer != primary.Disk || !primary.reigned(standby.Term) {
		return nil
	}
	for store := stream.Queue; store <= stream.Table; store++ {
		end, announced := primary.position().Of(store), stream.Position(standby.Announced).Of(store)
		if began := stream.Position(primary.Began).Of(store); standby.Term < primary.Term || announced.Log <= began.Log {
			end = began
		}
		if end.Before(announced) {
			return fmt.Errorf("%w: its logs end at %v, and it had announced %v", ErrRewound, end, announced)
		}
	}
	return nil
}

// replaces reports whether the peer has become the primary in the place of the own machine.
func (h Hello) replaces(own Hello) bool {
	return h.Role == RolePrimary && h.Term > own.Term && h.Lineage == own.Lineage && h.Disk != own.Disk
}

// checkPeer returns an error if the two machines cannot be a pair.
func checkPeer(own, peer Hello) error {
	switch {
	case peer.Protocol != protocol || peer.FrameFormat != stream.Format:
		return fmt.Errorf("%w: the other machine runs %s", ErrVersion, peer.Version)
	case peer.Disk == own.Disk:
		return SameDisk(own, peer)
	case own.Mode != ModeSeeding && peer.Mode != ModeSeeding && peer.Lineage != own.Lineage:
		return ErrLineage
	case !own.sameSecret(peer):
		return ErrSecret
	case own.Register != peer.Register:
		return ErrRegister
	case own.Lease != peer.Lease: // the primary would read by a longer promise than the standby waits for
		return &SettingError{"the lease of FANFARE_FAILOVER_AFTER", milliseconds(own.Lease).String(), milliseconds(peer.Lease).String()}
	}
	return nil
}
