package embedded

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/planttest"
	"fanfare/internal/queue"
)

const topicName = queue.TopicLikes

func mustOpen(t *testing.T, fs vfs.FS) *Broker {
	t.Helper()
	b, err := Create("queue", Options{FS: fs})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, b.Close())
	})
	return b
}

// I5: after each call that returned, the test copies the file system without the unsynced data.
// The copy must still have the effect of the call.
func TestWhatReturnedSurvivesACrash(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	b := mustOpen(t, fs)
	after := func(call string, want queue.Depth) {
		t.Helper()
		crashed := mustOpen(t, fs.CrashClone(vfs.CrashCloneCfg{}))
		got, err := crashed.Depth(t.Context(), topicName)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("after a %s and a crash: %+v, want %+v", call, got, want)
		}
	}
	msg := func(id string) *message.Message { return message.NewMessage(id, []byte("x")) }
	publish := func(msgs ...*message.Message) {
		t.Helper()
		if err := b.Publish(topicName, msgs...); err != nil {
			t.Fatal(err)
		}
	}
	publish(msg("1"))
	after("publish", queue.Depth{Ready: 1})
	publish(msg("2"), msg("3"), msg("4"))
	after("publish of three", queue.Depth{Ready: 4})
	for _, id := range []string{"5", "6"} {
		if err := b.DeadLetter(t.Context(), topicName, msg(id), "why"); err != nil {
			t.Fatal(err)
		}
	}
	after("dead letter", queue.Depth{Ready: 4, Dead: 2})
	if _, _, err := b.Redrive(t.Context(), topicName, []string{"5"}, nil); err != nil {
		t.Fatal(err)
	}
	after("redrive", queue.Depth{Ready: 5, Dead: 1})
	if _, err := b.DropDead(t.Context(), topicName, nil); err != nil {
		t.Fatal(err)
	}
	after("drop", queue.Depth{Ready: 5})
}

// TestWhatReturnedSurvivesACrash must find a queue that answers without a sync.
func TestAMissingSyncIsFound(t *testing.T) {
	t.Parallel()
	binary := planttest.Build(t, planttest.Overlay(t, planttest.Root(t), []planttest.Edit{
		{File: "internal/queue/embedded/writer.go", Old: "options = pebble.Sync", New: "options = pebble.NoSync"},
	}))
	planttest.MustFail(t, binary, "TestWhatReturnedSurvivesACrash", "after a publish and a crash: {Ready:0", 1)
}

func TestReceivesBeforeACrashAreCounted(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	b := mustOpen(t, fs)
	for i := range 3 {
		require.NoError(t, b.Publish(topicName, message.NewMessage(fmt.Sprint(i), []byte("x"))))
	}
	in, err := b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	<-in // a process that dies holds this message
	// A publish also writes the topic's state, and this state includes the receive.
	require.NoError(t, b.Publish(topicName, message.NewMessage("last", []byte("x"))))
	b = mustOpen(t, fs.CrashClone(vfs.CrashCloneCfg{}))
	in, err = b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	receives := map[string]int{}
	for range 4 {
		msg := <-in
		receives[msg.UUID] = queue.ReceiveOf(msg).Receives
		msg.Ack()
	}
	if receives["0"] != 2 || receives["last"] != 1 {
		t.Errorf("receive counts %v, want 2 for the first and 1 for the last", receives)
	}
}

func TestMemoryIsBoundedWhateverTheBacklog(t *testing.T) {
	t.Parallel()
	b := mustOpen(t, vfs.NewMem())
	const n = 30_000
	body := []byte(strings.Repeat("x", 1000))
	for i := 0; i < n; {
		var msgs []*message.Message
		for ; len(msgs) < 1000; i++ {
			msg := message.NewMessage(watermill.NewULID(), body)
			msg.Metadata.Set(queue.MetaGroup, fmt.Sprint(i)) // as many groups as messages
			msgs = append(msgs, msg)
		}
		require.NoError(t, b.Publish(topicName, msgs...))
	}
	top := b.byName[topicName]
	checkBounds := func() {
		t.Helper()
		top.mu.Lock()
		defer top.mu.Unlock()
		sum := 0
		for _, e := range top.buffer {
			sum += len(e.value)
		}
		if len(top.buffer) > bufferMessages || top.bytes > bufferBytes || sum != top.bytes {
			t.Fatalf("the buffer has %d messages of %d bytes, counted as %d", len(top.buffer), sum, top.bytes)
		}
	}
	checkBounds()
	in, err := b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	seen := map[string]bool{}
	for range n {
		msg := <-in
		require.Falsef(t, seen[msg.UUID], "message %s came twice", msg.UUID)
		seen[msg.UUID] = true
		msg.Ack()
		if len(seen)%997 == 0 {
			checkBounds()
		}
	}
}

// A message that is published while the buffer is cut, refilled and emptied is delivered once,
// in whatever order publishes, receives and nacks happen.
func TestEveryMessageIsDeliveredOnceThroughAnyBuffer(t *testing.T) {
	t.Parallel()
	b := mustOpen(t, vfs.NewMem())
	const n, groups = 20_000, 7
	rng := rand.New(rand.NewPCG(1, 2))
	in, err := b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	published, acked := 0, map[string]int{}
	for len(acked) < n {
		if published < n && (rng.IntN(3) > 0 || published == len(acked)) {
			var msgs []*message.Message
			for range min(1+rng.IntN(3000), n-published) {
				msg := message.NewMessage(fmt.Sprint(published), []byte("x"))
				msg.Metadata.Set(queue.MetaGroup, fmt.Sprint(rng.IntN(groups)))
				msgs = append(msgs, msg)
				published++
			}
			require.NoError(t, b.Publish(topicName, msgs...))
		}
		for range min(rng.IntN(4000), published-len(acked)) {
			msg := <-in
			if rng.IntN(20) == 0 {
				queue.ReceiveOf(msg).RetryAfter(0)
				msg.Nack()
				continue
			}
			if acked[msg.UUID]++; acked[msg.UUID] > 1 {
				t.Fatalf("message %s was delivered again after its ack", msg.UUID)
			}
			msg.Ack()
		}
	}
}

func TestRoundsAreFair(t *testing.T) {
	t.Parallel()
	var r rounds
	large, small := flowOf("celebrity"), flowOf("ordinary")
	for i := range uint64(1000) {
		require.Equalf(t, i+1, r.next(large, 0), "message %d of the large group is in round", i)
	}
	assert.Equal(t, uint64(5), r.next(small, 5), "the first of a small group is in round")
	assert.Equal(t, uint64(6), r.next(small, 5), "the second of a small group is in round")
	assert.Equal(t, uint64(5), r.next(large^returning, 5), "a returning message of the large group is in round")
}

func TestUnreadableRecordBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	b := mustOpen(t, fs)
	require.NoError(t, b.Publish(topicName, message.NewMessage("good", []byte("x"))))
	bad := newRecord(message.NewMessage("bad", []byte("x")), 0)
	bad[0] = recordVersion + 1
	require.NoError(t, b.submitAndWait(t.Context(), []change{{topic: b.byName[topicName], to: ready, value: bad}}))
	in, err := b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	if msg := <-in; msg.UUID != "good" || !msg.Ack() {
		t.Errorf("received %s", msg.UUID)
	}
	disktest.Until(t, func() bool { // the subscription also reads the unreadable message
		letters, err := b.ListDead(t.Context(), topicName, 10)
		return err != nil || len(letters) > 0
	})
	require.NoError(t, b.Close())
	b = mustOpen(t, fs)
	letters, err := b.ListDead(t.Context(), topicName, 10)
	if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Reason, "version") {
		t.Fatalf("dead letters %+v, %v", letters, err)
	}
	if sent, refused, err := b.Redrive(t.Context(), topicName, nil, nil); sent != 0 || refused != 1 || err != nil {
		t.Errorf("redrive of the unreadable: sent %d, refused %d, %v", sent, refused, err)
	}
}

func FuzzRecord(f *testing.F) {
	msg := message.NewMessage("id", []byte("payload"))
	msg.Metadata.Set(queue.MetaGroup, "g")
	f.Add([]byte(newRecord(msg, 3)))
	f.Add([]byte{})
	f.Add([]byte{recordVersion, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := record(data).decode()
		if err != nil {
			return
		}
		// A readable message does not change when it is written again.
		back, err := newRecord(got, record(data).receives()).decode()
		if err != nil || !back.Equals(got) {
			t.Fatalf("%q became %v, %v", data, back, err)
		}
		if n := record(data).withReceives(7).withCrash(); n.receives() != 8 || n.crashes() != min(record(data).crashes()+1, 255) || !bytes.Equal(n[headBytes:], data[headBytes:]) {
			t.Fatalf("receive count changed %q to %q", data, n)
		}
	})
}

func FuzzRecordOfAnyMessage(f *testing.F) {
	f.Add("id", "group", "v", []byte("payload"), 1)
	f.Fuzz(func(t *testing.T, id, key, value string, payload []byte, receives int) {
		msg := message.NewMessage(id, payload)
		msg.Metadata.Set(key, value)
		r := newRecord(msg, receives)
		got, err := r.decode()
		if err != nil || !got.Equals(msg) {
			t.Fatalf("%v became %v, %v", msg, got, err)
		}
	})
}

func TestStateSurvivesItsEncoding(t *testing.T) {
	t.Parallel()
	want := state{1, position{2, 3}, 4, 5, 6}
	if got, err := decodeState(want.encode()); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := decodeState([]byte("short")); err == nil {
		t.Error("a short state was read")
	}
}
