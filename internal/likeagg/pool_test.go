package likeagg

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// waits queues n calls that each wait for an hour. It returns the number of calls that have
// begun, and the number of calls that have ended.
func waits(t *testing.T, p *pool, g *gate, n int) (begun, ended *atomic.Int32) {
	t.Helper()
	begun, ended = new(atomic.Int32), new(atomic.Int32)
	own := g == nil
	for range n {
		if own {
			g = new(gate)
		}
		p.enqueue(g, 1, func(int) {
			begun.Add(1)
			p.wait(t.Context(), time.Hour, g)
			ended.Add(1)
		}, nil)
	}
	return begun, ended
}

// The number of workers that wait without a place is bounded. The next worker that waits keeps its place.
func TestTheWorkersThatWaitAreBounded(t *testing.T) {
	step(t, func(w *world) {
		const more = 3
		p := newPool(1)
		p.start()
		begun, ended := waits(w.t, p, nil, waitersPerPlace+1+more)
		synctest.Wait()
		assert.EqualValues(t, waitersPerPlace+1, begun.Load())
		pass(waitersPerPlace * time.Hour)
		assert.EqualValues(t, waitersPerPlace+1+more, ended.Load())
		p.stop()
		assert.Zero(t, p.waiting)
		assert.Zero(t, p.working)
	})
}

// A window with as many waiting workers as there are places gets no turn until one of its workers is back.
// Other windows get turns.
func TestAWindowThatWaitsLeavesTheTurnsToOthers(t *testing.T) {
	step(t, func(w *world) {
		p := newPool(2)
		p.start()
		hot, hotEnded := waits(w.t, p, new(gate), 5)
		cold, _ := waits(w.t, p, nil, 1)
		synctest.Wait()
		assert.EqualValues(t, 2, hot.Load())
		assert.EqualValues(t, 1, cold.Load())
		pass(time.Hour + time.Second)
		assert.EqualValues(t, 4, hot.Load())
		pass(waitersPerPlace * time.Hour)
		assert.EqualValues(t, 5, hotEnded.Load())
		p.stop()
	})
}

// A stopping pool waits for the waiting worker, which no longer needs a place.
func TestAPoolThatStopsWaitsForTheLastWorker(t *testing.T) {
	step(t, func(w *world) {
		p := newPool(2)
		p.start()
		_, ended := waits(w.t, p, nil, 1)
		synctest.Wait()
		p.stop()
		assert.EqualValues(t, 1, ended.Load())
		assert.Zero(t, p.waiting)
		assert.Zero(t, p.working)
	})
}

// The calls of a batch begin at once on the workers that are free.
func TestABatchBeginsOnAllFreeWorkers(t *testing.T) {
	for calls, atOnce := range map[int]int{1: 1, 2: 2, 9: 4} {
		step(t, func(*world) {
			p := newPool(4)
			p.start()
			synctest.Wait()
			begun, release := make(chan int, calls), make(chan struct{})
			p.enqueue(new(gate), calls, func(i int) { begun <- i; <-release }, nil)
			synctest.Wait()
			assert.Len(t, begun, atOnce)
			close(release)
			p.stop()
			assert.Len(t, begun, calls)
		})
	}
}
