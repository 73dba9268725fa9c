package pair_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/pair"
	"fanfare/internal/stream"
)

// The standby that may be promoted for the first time has everything that the primary has answered, also
// the answers from before and during the join (P7, P8), and also if the session ends at this moment.
func TestTheMomentOfPairing(t *testing.T) {
	t.Parallel()
	inBubble(t, 40, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.network.delay.Store(int64(time.Duration(w.rng.IntN(300)) * time.Millisecond))
		a.boot()
		pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		b.boot()
		if w.rng.IntN(2) == 0 {
			for a.process.primary.Status().Mode != pair.ModePaired {
				pass(time.Millisecond)
			}
			w.network.drop()
		}
		for b.standby.Status().Mode != pair.ModePaired {
			pass(time.Millisecond)
		}
		w.network.drop()
		a.die(100)
		require.NoError(w, b.promote())
		pass(time.Second)
		b.die(100)
	})
}

// A paired primary takes no other disk than the one with which it is paired, whatever the disk has (P6).
func TestAPairedPrimaryTakesOnlyItsDisk(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.boot()
		w.settle()
		w.bucket.set(a.number(), way{away: true}) // the primary cannot go alone
		b.exit()
		pass(time.Second)
		require.False(w, a.process.primary.Status().Connected)
		role := b.loadRole()
		hello := pair.AskingHello(role, 2, "v")
		hello.Disk, hello.Lease, hello.Register = "another", timing.Lease.Milliseconds(), b.register().Name()
		at := a.process.primary.Status().At
		hello.Queue, hello.Table = at.Queue, at.Table
		text, err := json.Marshal(hello)
		require.NoError(w, err)
		conn, err := b.dial()(w.Context())
		require.NoError(w, err)
		_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
		require.NoError(w, err)
		pass(time.Second)
		require.False(w, a.process.primary.Status().Connected, "the primary takes another disk")
		got, err := io.ReadAll(conn)
		require.NoError(w, err)
		require.Contains(w, string(got), "paired with another disk")
		require.NoError(w, conn.Close())
		a.die(100)
	})
}

// A machine that is refused ends no session, and its reason does not replace the standby's.
func TestARefusedMachineHarmsNoSession(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		intrudes := func(change func(*pair.Hello)) net.Conn {
			w.Helper()
			hello := pair.AskingHello(b.loadRole(), 2, "v")
			hello.Lease, hello.Register = timing.Lease.Milliseconds(), b.register().Name()
			at := a.process.primary.Status().At
			hello.Queue, hello.Table = at.Queue, at.Table
			change(&hello)
			text, err := json.Marshal(hello)
			require.NoError(w, err)
			conn, err := b.dial()(w.Context())
			require.NoError(w, err)
			_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
			require.NoError(w, err)
			return conn
		}
		w.boot()
		w.settle()
		for i, change := range []func(*pair.Hello){
			func(h *pair.Hello) { h.Disk = "another" },
			func(h *pair.Hello) { h.Disk, h.Mode = "another", pair.ModeSeeding },
			func(h *pair.Hello) { h.Mode = pair.ModeSeeding },
			func(h *pair.Hello) { h.Queue, h.Table = stream.Place{}, stream.Place{} },
			func(h *pair.Hello) { h.Lineage = "another" },
			func(h *pair.Hello) { h.Protocol = 0 },
			func(h *pair.Hello) { h.Register = "another" },
			func(h *pair.Hello) { h.DataFormat = 1 },
			func(h *pair.Hello) { h.Secret = []byte("another") },
		} {
			conn := intrudes(change)
			for range 1000 {
				pass(time.Millisecond)
				require.True(w, a.process.primary.Status().Connected && b.standby.Status().Connected, "intruder %d has ended the session", i)
			}
			require.NoError(w, conn.Close())
		}
		w.bucket.set(a.number(), way{away: true}) // the primary cannot go alone
		b.exit()
		pass(time.Second)
		why := a.process.primary.Status().Reason
		require.NotEmpty(w, why)
		conn := intrudes(func(h *pair.Hello) { h.Disk = "another" })
		pass(time.Second)
		require.Equal(w, why, a.process.primary.Status().Reason, "the reason is the intruder's")
		require.NoError(w, conn.Close())
		conn = intrudes(func(h *pair.Hello) { h.Secret = []byte("another") })
		pass(time.Second)
		require.Contains(w, a.process.primary.Status().Reason, "FANFARE_DEV_SECRET", "the standby's own reason")
		require.NoError(w, conn.Close())
		a.die(100)
	})
}

// A second standby of a primary that is alone does not end the first one's session.
func TestASecondStandbyWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.network.delay.Store(int64(300 * time.Millisecond)) // so that the pair is not complete at once
		w.boot()
		for !a.process.primary.Status().Connected {
			pass(time.Millisecond)
		}
		hello := pair.AskingHello(pair.NewRole(w.TempDir(), pair.RoleStandby), 2, "v")
		hello.Lease, hello.Register = timing.Lease.Milliseconds(), b.register().Name()
		text, err := json.Marshal(hello)
		require.NoError(w, err)
		for a.process.primary.Status().Mode != pair.ModePaired {
			conn, err := b.dial()(w.Context())
			require.NoError(w, err)
			_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
			require.NoError(w, err)
			require.NoError(w, conn.SetDeadline(time.Now().Add(time.Second)))
			got, _ := io.ReadAll(conn) // the deadline ends a session that the primary has begun
			require.Contains(w, string(got[max(0, len(got)-300):]), "with another ", "the second standby gets a session")
			require.NoError(w, conn.Close())
		}
		a.die(100)
		b.die(100)
	})
}

// A standby whose primary has not paired with it may lack answered writes.
func TestAStandbyThatIsNotPairedIsNotPromoted(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.network.set(true)
		w.boot()
		require.ErrorIs(w, b.standby.Promote(w.Context(), true), pair.ErrSeeding)
		b.exit()
		b.boot()
		_, standby := w.settle()
		require.Equal(w, b, standby)
		a.exit()
		require.NoError(w, pair.Unpair(w.Context(), a.loadRole(), a.register()))
		w.network.delay.Store(int64(500 * time.Millisecond))
		a.boot()
		for b.standby.Status().Mode == pair.ModePaired {
			pass(10 * time.Millisecond)
		}
		require.ErrorIs(w, b.standby.Promote(w.Context(), false), pair.ErrNotPaired)
		w.settle()
		a.die(100)
		b.die(100)
	})
}

// While the register is away, a write waits for the standby, and reads end with the promise. When the standby is back, both continue.
func TestAPairedPrimaryRefusesWithoutItsStandby(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		a, b := w.machines[0], w.machines[1]
		w.boot()
		w.settle()
		pass(time.Second)
		w.bucket.set(a.number(), way{away: true})
		b.exit()
		ends := a.process.primary.PromiseEnds()
		require.True(w, a.process.primary.Promised())
		pass(time.Second)
		before := w.count()
		pass(timing.Lease)
		require.Equal(w, before, w.count(), "a write was answered without the standby")
		require.False(w, a.process.primary.Promised())
		select {
		case <-ends:
		default:
			require.Fail(w, "the end of the promise is not announced")
		}
		b.boot()
		w.until(a.process.primary.Promised)
		pass(time.Second)
		require.Greater(w, w.count(), before)
		a.die(100)
		b.die(100)
	})
}

// count returns the number of answered writes.
func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered[1]["count"] + w.answered[2]["count"]
}

// The new primary serves at once after a switch, so the old one must not answer reads from then on.
func TestASwitchEndsThePromise(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(w *world) {
		w.boot()
		primary, _ := w.settle()
		pass(time.Second)
		require.True(w, primary.process.primary.Promised())
		require.NoError(w, primary.handOver())
		require.False(w, primary.process.primary.Promised())
		primary.exit()
		w.tend()
		pass(time.Second)
		w.end()
	})
}

// A promise that arrives late ends as early as another one, because the standby does not wait longer (P13).
func TestAPromiseCountsFromTheAsking(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(w *world) {
		w.boot()
		primary, standby := w.settle()
		pass(time.Second)
		w.bucket.set(primary.number(), way{away: true})
		w.network.hold(false, true)
		pass(600 * time.Millisecond)
		time.AfterFunc(2*time.Second, func() { w.network.hold(false, false) })
		require.NoError(w, standby.promote())
		pass(5 * time.Second)
		w.tend()
		w.end()
	})
}

// The tail of a standby keeps a log from the log's beginning on until the stores have synced the whole log: after a loss of power
// the standby applies the log again, although the log began in an earlier file of the tail.
func TestATailKeepsALogThatIsNotWhollyApplied(t *testing.T) {
	t.Parallel()
	inBubble(t, 6, func(w *world) {
		w.boot()
		a, b := w.settle()
		for range 3 {
			pass(5*time.Second + time.Duration(w.rng.IntN(2000))*time.Millisecond)
			b.die(0)
			b.boot()
			pass(100 * time.Millisecond)
		}
		a.die(100)
		require.NoError(w, b.promote())
		pass(time.Second)
		b.die(100)
	})
}
