package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"fanfare/internal/ops/audit"
)

// Verification is a request for a walk.
type Verification struct {
	Repair bool `json:"repair"`
	// RestoredTo is the time to which the table was restored, zero if it never was.
	RestoredTo time.Time `json:"restored_to,omitzero"`
	// Rate is the maximum number of capacity units a second.
	Rate float64 `json:"rate"`
}

// VerifyEvent is a part of the answer: Finding, Progress, Done or Error. The last event is Done or
// Error.
type VerifyEvent struct {
	Finding  *audit.Finding `json:"finding,omitempty"`
	Progress *audit.Summary `json:"progress,omitempty"`
	// Total is set with Progress: an estimate of the number of items of the table, 0 if the
	// number is unknown.
	Total int64          `json:"total,omitempty"`
	Done  *audit.Summary `json:"done,omitempty"`
	Error string         `json:"error,omitempty"`
}

// Verifier checks the stored items: of the table, or through the admin address of a process
// that has the table.
type Verifier interface {
	// Verify walks over the whole table once, and calls event with each finding and with the
	// progress.
	Verify(ctx context.Context, in Verification, event func(VerifyEvent) error) (audit.Summary, error)
}

// BusyError means that another walk is in progress.
type BusyError struct{}

func (BusyError) Error() string {
	return "another verification is at work here: wait for its end, or stop it"
}

// handleVerify adds the operation to mux, and allows one walk at a time. A web page must not
// be able to request a walk. The answer has a line of JSON for each event. The walk ends
// with the request.
func handleVerify(mux *http.ServeMux, v Verifier) {
	var one sync.Mutex
	handle := func(w http.ResponseWriter, r *http.Request) {
		var in Verification
		if !read(w, r, &in, `{"repair": …, "rate": …}`) {
			return
		}
		if in.Rate < 1 {
			http.Error(w, "rate must be at least 1", http.StatusUnprocessableEntity)
			return
		}
		if !one.TryLock() {
			http.Error(w, BusyError{}.Error(), http.StatusConflict)
			return
		}
		answer := http.NewResponseController(w)
		_ = answer.SetWriteDeadline(time.Time{}) // this fails only for a server without deadlines
		w.Header().Set("Content-Type", "application/x-ndjson")
		line := json.NewEncoder(w)
		event := func(e VerifyEvent) error { return errors.Join(line.Encode(e), answer.Flush()) }
		done, err := func() (audit.Summary, error) {
			defer one.Unlock() // before the last line, because after that line the client may request the next walk
			return v.Verify(r.Context(), in, event)
		}()
		last := VerifyEvent{Done: &done}
		if err != nil {
			last = VerifyEvent{Error: err.Error()}
		}
		_ = event(last) // a failed write means that the client is gone
	}
	mux.Handle("POST /admin/verify", http.NewCrossOriginProtection().Handler(http.HandlerFunc(handle)))
}

// Verify implements Verifier. The call takes as long as the walk.
func (c *Client) Verify(ctx context.Context, in Verification, event func(VerifyEvent) error) (audit.Summary, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return audit.Summary{}, err
	}
	req, err := c.request(ctx, http.MethodPost, "/admin/verify", bytes.NewReader(text))
	if err != nil {
		return audit.Summary{}, err
	}
	patient := *c.client
	patient.Timeout = 0
	res, err := patient.Do(req)
	if err != nil {
		return audit.Summary{}, fmt.Errorf("the admin address does not answer (is fanfare up running there? see --admin): %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the status is enough
		if res.StatusCode == http.StatusConflict {
			return audit.Summary{}, BusyError{}
		}
		return audit.Summary{}, fmt.Errorf("%s answered %d (is it the admin address of fanfare up? see --admin): %s", c.base, res.StatusCode, strings.TrimSpace(string(why)))
	}
	for lines := json.NewDecoder(res.Body); ; {
		var e VerifyEvent
		if err := lines.Decode(&e); err != nil {
			return audit.Summary{}, fmt.Errorf("the answer ended before the walk did: %w", err)
		}
		switch {
		case e.Done != nil:
			return *e.Done, nil
		case e.Error != "":
			return audit.Summary{}, errors.New(e.Error)
		}
		if err := event(e); err != nil {
			return audit.Summary{}, err
		}
	}
}
