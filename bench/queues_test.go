package bench

import (
	"errors"
	"testing"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/queue"
)

// Both transports get from the stand-in what they sent.
func TestTheQueueStandInServesBothTransports(t *testing.T) {
	for _, kind := range []string{"ours", "stock"} {
		t.Run(kind, func(t *testing.T) {
			server, err := startQueues(time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := server.stop(); err != nil {
					t.Error(err)
				}
			}()
			tr, err := openTransport(t.Context(), kind, server, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := tr.close(); err != nil {
					t.Error(err)
				}
			}()
			ids, want := id.NewGenerator(time.Now), map[string]bool{}
			for range 25 {
				msg, err := sample(t.Context(), ids)
				if err == nil {
					err = tr.publish(queue.TopicPosts, msg)
				}
				if err != nil {
					t.Fatal(err)
				}
				want[msg.UUID] = true
			}
			in, err := tr.subscribe(t.Context(), queue.TopicPosts)
			if err != nil {
				t.Fatal(err)
			}
			for len(want) > 0 {
				msg := <-in
				if !want[msg.UUID] {
					t.Fatalf("%s came twice, or was never sent", msg.UUID)
				}
				delete(want, msg.UUID)
				msg.Ack()
			}
			if err := until(t.Context(), server.idle); err != nil {
				t.Fatal(errors.New("messages were not deleted"))
			}
		})
	}
}

func TestLikesAreCountedByWindows(t *testing.T) {
	e := &env{dir: t.TempDir(), id: "test"}
	run, err := e.countLikes(t.Context(), 100, 10)
	if err != nil {
		t.Fatal(err)
	}
	if run.countWrites > run.windows || run.units != float64(run.likes)+float64(run.flushes) {
		t.Errorf("%+v", run)
	}
}
