package admin

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// PairStatus is the state of a machine of a pair.
type PairStatus struct {
	// Role is primary or standby. Mode is alone or paired for a primary, and seeding, following or paired for a standby.
	Role string `json:"role"`
	Mode string `json:"mode"`
	Term uint64 `json:"term"`
	// Peer is the address of the other machine. Connected reports whether there is a session with it.
	Peer      string `json:"peer"`
	Connected bool   `json:"connected"`
	// Reason is why there is no session, or why the stores of the standby cannot take the stream at the moment.
	Reason string `json:"reason,omitempty"`
	// Joining reports whether the answers of a primary wait for a standby with which it is not paired yet.
	Joining bool `json:"joining"`
	// LagBytes is about the number of bytes that the standby has not confirmed, or not applied.
	LagBytes int64 `json:"lag_bytes"`
	// AckMillis is the time of the last answered heartbeat, and PromiseMillis the rest of the standby's promise.
	AckMillis     int64 `json:"ack_ms"`
	PromiseMillis int64 `json:"promise_ms"`
	// SeededBytes of SeedBytes are copied to a new standby.
	SeededBytes int64 `json:"seeded_bytes"`
	SeedBytes   int64 `json:"seed_bytes"`
	// AloneMillis is the time for which a primary with a register has answered alone, 0 while it is not alone.
	AloneMillis int64 `json:"alone_ms"`
	// Register is the newest answer of the register, nil without one.
	Register *PairRegister `json:"register,omitempty"`
}

// PairRegister is the entry of a pair's register, as a machine has last read it.
type PairRegister struct {
	Term uint64 `json:"term"`
	// Primary and Standby are the disks of the machines. Standby is empty if Mode is alone.
	Primary string `json:"primary"`
	Standby string `json:"standby,omitempty"`
	Mode    string `json:"mode"`
	// Since is the time of the last change by the clock of its writer. AgeMillis is the time since the register last answered.
	Since     time.Time `json:"since"`
	AgeMillis int64     `json:"age_ms"`
}

// Promotion is what an operator says about a promotion.
type Promotion struct {
	// PrimaryIsGone means that the process of the primary has ended, or that its machine is lost.
	PrimaryIsGone bool `json:"primary_is_gone"`
	// AcceptLoss means that writes that only the primary has may be lost.
	AcceptLoss bool `json:"accept_loss"`
}

// Pair is the pair of a process.
type Pair interface {
	PairStatus() PairStatus
	// Promote makes a standby the primary.
	Promote(ctx context.Context, in Promotion) error
}

// PairError is the reason why a promotion was refused or failed.
type PairError struct{ Detail string }

func (e *PairError) Error() string { return e.Detail }

// handlePair adds the operations on a pair to mux, unless p is nil.
func handlePair(mux *http.ServeMux, p Pair) {
	if p == nil {
		return
	}
	mux.Handle("GET /admin/pair", NotFromOtherSites(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(w, p.PairStatus(), nil)
	})))
	promote := func(w http.ResponseWriter, r *http.Request) {
		var in Promotion
		if !read(w, r, &in, `{"primary_is_gone": …, "accept_loss": …}`) {
			return
		}
		// A promotion has limits of its own. Otherwise the server would treat the read deadline of the request as the end of the client.
		answer := http.NewResponseController(w)
		_ = errors.Join(answer.SetReadDeadline(time.Time{}), answer.SetWriteDeadline(time.Time{})) // this fails only for a server without deadlines
		if err := p.Promote(r.Context(), in); err != nil {
			http.Error(w, err.Error(), refusedByPair)
			return
		}
		write(w, p.PairStatus(), nil)
	}
	mux.Handle("POST /admin/promote", http.NewCrossOriginProtection().Handler(http.HandlerFunc(promote)))
}

// refusedByPair is the status of a refused or failed promotion. The client returns the answer's text.
const refusedByPair = http.StatusPreconditionFailed

// Pair returns the state of the pair of the process.
func (c *Client) Pair(ctx context.Context) (PairStatus, error) {
	var out PairStatus
	err := c.call(ctx, http.MethodGet, "/admin/pair", nil, &out)
	return out, err
}

// Promote makes the standby the primary. It returns when the standby has its new role, before it serves.
func (c *Client) Promote(ctx context.Context, in Promotion) (PairStatus, error) {
	var out PairStatus
	err := c.call(ctx, http.MethodPost, "/admin/promote", in, &out)
	return out, err
}

// Standby returns the handler of the health of a standby: 200 for /healthz, and 503 with the role for all other paths.
// primary is the address of the other machine.
func Standby(primary string) http.Handler {
	body := healthBody{Status: "not ready", Role: "standby", Primary: primary}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			writeHealth(w, http.StatusOK, healthBody{Status: "ok"})
			return
		}
		writeHealth(w, http.StatusServiceUnavailable, body)
	})
}

// NewStandbyHandler returns the handler of the admin address and the metrics address of a standby: /metrics, /healthz, and, with
// c.Pair, the operations on the pair.
func NewStandbyHandler(c Config, primary string) http.Handler {
	return besides(c, Standby(primary))
}

// NewWaitingHandler returns the handler of the admin address and the metrics address of a machine of a pair that waits at its
// start: as NewStandbyHandler, but each refusal names the reasons of the wait.
func NewWaitingHandler(c Config, reasons func() []string) http.Handler {
	return besides(c, starting(reasons))
}

// besides returns a handler for /metrics and, with c.Pair, the operations on the pair. The handler rest has the rest.
func besides(c Config, rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.Handle("GET /metrics", metricsOf(c.Metrics))
	if c.Pair == nil {
		return mux
	}
	handlePair(mux, NewTrail(c.Log).Pairs(c.Pair))
	return ownHost(c.Host, byActor(mux))
}
