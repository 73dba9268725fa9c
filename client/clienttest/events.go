package clienttest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/client"
	"fanfare/messages"
)

// Emit adds an event for GET /v1/events. The error names a field that no event can have.
func (s *Server) Emit(event messages.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emit(event)
}

// emit adds an event. The caller holds the lock.
func (s *Server) emit(event messages.Event) error {
	payload, err := messages.Encode(event)
	if err != nil {
		return err
	}
	s.events = append(s.events, client.Event{Position: fmt.Sprintf("%032x", len(s.events)+1), Event: payload})
	close(s.grew)
	s.grew = make(chan struct{})
	return nil
}

// readEvents answers GET /v1/events to a service. It waits for an event if there is none.
func (s *Server) readEvents(w http.ResponseWriter, r *http.Request) {
	token, authed := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !authed:
		w.Header().Set("WWW-Authenticate", "Bearer")
		write(w, http.StatusUnauthorized, problem(http.StatusUnauthorized))
		return
	case !strings.HasPrefix(token, servicePrefix):
		write(w, http.StatusForbidden, problem(http.StatusForbidden))
		return
	}
	query, numbers := r.URL.Query(), map[string]int{"limit": 100, "wait_s": 0}
	for name := range numbers {
		if n, err := strconv.Atoi(query.Get(name)); err == nil {
			numbers[name] = n
		}
	}
	after, wait := query.Get("after"), time.After(time.Duration(numbers["wait_s"])*time.Second)
	for {
		events, grew := s.eventsAfter(after)
		if len(events) == 0 {
			select {
			case <-grew:
				continue
			case <-wait:
			case <-r.Context().Done():
			}
		}
		read := client.EventPage{Events: events[:min(len(events), numbers["limit"])], Next: after}
		if n := len(read.Events); n > 0 {
			read.Next = read.Events[n-1].Position
		}
		write(w, http.StatusOK, read)
		return
	}
}

// eventsAfter returns the events behind a position, and a channel that is closed when there are more.
func (s *Server) eventsAfter(after string) (events []client.Event, grew <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := slices.IndexFunc(s.events, func(e client.Event) bool { return e.Position > after })
	if from < 0 {
		return []client.Event{}, s.grew
	}
	return s.events[from:], s.grew
}
