package sqstest

import (
	"slices"
	"time"
)

// Fault is one kind of failure of a request.
type Fault struct {
	// Status and Code refuse the request. A refused request has no effect.
	Status int
	Code   string
	// Cut breaks the connection within the reply, and Lost breaks the connection before the
	// reply. In both cases the request has its effect.
	Cut, Lost bool
	// Entries makes entries of a batch fail, by their id. Failed entries have no effect.
	Entries map[string]EntryFault
	// Delay is added to the latency, before the effect of the request. Hold is the wait between
	// the effect and the reply.
	Delay, Hold time.Duration
}

// EntryFault is the failure of an entry of a batch: its code, and whether SQS reports the
// failure as the sender's fault. Without a code, the reply omits the entry.
type EntryFault struct {
	Code   string
	Sender bool
}

// SetFault sets the function that chooses the fault of each request, by the request's
// operation. If choose is nil, or returns nil, the request does not fail. The server makes no
// concurrent calls of choose.
func (s *Server) SetFault(choose func(op string) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = choose
}

// FailNth makes the nth request of an operation fail, counted from now on, and no other request.
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

// FailFor makes the requests of some operations fail for the time d. If no operation is named, all requests fail.
func (s *Server) FailFor(d time.Duration, f Fault, ops ...string) {
	end := time.Now().Add(d)
	s.SetFault(func(op string) *Fault {
		if len(ops) > 0 && !slices.Contains(ops, op) || !time.Now().Before(end) {
			return nil
		}
		return &f
	})
}
