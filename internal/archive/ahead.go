package archive

import (
	"context"
	"iter"
	"sync"
)

// inOrder yields what get returns for the numbers first to last, in order, and ends with the first
// error. Up to readAhead calls of get run at once. When inOrder ends, all calls have ended.
func inOrder[T any](ctx context.Context, first, last uint64, get func(context.Context, uint64) (T, error)) iter.Seq2[T, error] {
	type answer struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var calls sync.WaitGroup
		defer calls.Wait()
		defer cancel()
		var ahead []chan answer
		for n := first; n <= last || len(ahead) > 0; {
			for ; n <= last && len(ahead) < readAhead; n++ {
				number, done := n, make(chan answer, 1)
				ahead = append(ahead, done)
				calls.Go(func() {
					value, err := get(ctx, number)
					done <- answer{value, err}
				})
			}
			next := <-ahead[0]
			ahead = ahead[1:]
			if !yield(next.value, next.err) || next.err != nil {
				return
			}
		}
	}
}
