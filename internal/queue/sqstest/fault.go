package sqstest

import (
	"slices"
	"time"
)

// Fault is one way in which a request fails.
type Fault struct {
	// Status and Code refuse the request, which then has no effect.
	Status int
	Code   string
	// Cut breaks the connection within the reply, Lost before the reply. The request has
	// its effect.
	Cut, Lost bool
	// Entries fails entries of a batch, by their id. Failed entries have no effect.
	Entries map[string]EntryFault
	// Delay is added to the latency, before the effect of the request. Hold is a wait
	// after the effect, before the reply.
	Delay, Hold time.Duration
}

// EntryFault is the failure of an entry of a batch: its code, and whether SQS reports it
// as the sender's fault. Without a code, the reply leaves the entry out.
type EntryFault struct {
	Code   string
	Sender bool
}

// SetFault lets choose decide how each request fails, by its operation. If choose is nil,
// or returns nil, the request does not fail. One goroutine at a time calls choose.
func (s *Server) SetFault(choose func(op string) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = choose
}

// FailNth fails the nth request of an operation from now on, and no other request.
func (s *Server) FailNth(n int, op string, f Fault) {
	count := 0
	s.SetFault(func(got string) *Fault {
		if got == op {
			count++
		}
		if got != op || count != n {
			return nil
		}
		return &f
	})
}

// FailFor fails the requests of some operations, of all if none is named, until d is over.
func (s *Server) FailFor(d time.Duration, f Fault, ops ...string) {
	end := time.Now().Add(d)
	s.SetFault(func(op string) *Fault {
		if len(ops) > 0 && !slices.Contains(ops, op) || !time.Now().Before(end) {
			return nil
		}
		return &f
	})
}
