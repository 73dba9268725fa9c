package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/pair"
)

const noPair = "this fanfare up has no pair: set FANFARE_PEER on both machines (docs/ONE_MACHINE.md)"

// PairStatus returns the state of the pair of a process.
func PairStatus() Op[None, pair.Status] {
	return Op[None, pair.Status]{
		Route: "GET /admin/pair", Has: hasPair, Absent: noPair,
		Run: func(_ context.Context, d Domain, _ None) (pair.Status, error) { return d.Pair.PairStatus(), nil },
		Command: Command[None, pair.Status]{
			Words: Words{Use: "pair status", Short: "Show which machine of a pair this is, and how far the standby is", Long: statusHelp, Embedded: true},
			Text:  describe,
		},
	}
}

const statusHelp = `Asks the admin address of a running fanfare up. A primary that is alone has the only copy of the
newest writes. Only a standby that is paired can be promoted without a loss.`

func hasPair(d Domain) bool { return d.Pair != nil }

// describe returns the state of a machine as text.
func describe(s pair.Status) string {
	text := fmt.Sprintf("%s, %s, term %d; the other machine, %s, ", s.Role, s.Mode, s.Term, s.Peer)
	if s.Connected {
		text += "is connected"
	} else {
		text += "is away"
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	if s.SeedSize > s.Seeded {
		text += fmt.Sprintf("; %.0f of %.0f MB are copied", float64(s.Seeded)/1e6, float64(s.SeedSize)/1e6)
	}
	if s.Lag > 0 {
		text += fmt.Sprintf("; the standby is %.1f MB (%d bytes) behind", float64(s.Lag)/1e6, s.Lag)
	}
	if s.AloneFor.Duration > 0 {
		text += fmt.Sprintf("; alone for %s", s.AloneFor)
	}
	if r := s.Register; r != nil {
		text += fmt.Sprintf("; the register, read %s ago: primary %s of term %d, %s since %s",
			r.Age, r.Primary, r.Term, r.Mode, r.Since.Format(time.RFC3339))
	}
	return text
}

// Promotion is what an operator says about a promotion.
type Promotion struct {
	// PrimaryIsGone means that the process of the primary has ended, or that its machine is lost.
	PrimaryIsGone bool `json:"primary_is_gone"`
	// AcceptLoss means that writes that only the primary has may be lost.
	AcceptLoss bool `json:"accept_loss"`
	// RegisterIsGone means that the register has lost its entry, and that the machine of the primary is off for good.
	RegisterIsGone bool `json:"register_is_gone"`
}

// Promote makes the standby the primary. It returns when the standby has its new role, before it serves; the command
// waits until it serves.
func Promote() Op[Promotion, pair.Status] {
	return Op[Promotion, pair.Status]{
		Name: "promote", Route: "POST /admin/promote", Form: `{"primary_is_gone": …, "accept_loss": …, "register_is_gone": …}`,
		Params: func(in *Promotion) []Param {
			return []Param{
				{"primary_is_gone", &in.PrimaryIsGone, "the primary is lost, or cannot be reached"},
				{"accept_loss", &in.AcceptLoss, "lose the writes that only the primary has"},
				{"register_is_gone", &in.RegisterIsGone, "the register has lost its entry, and the primary's machine is off for good"},
			}
		},
		Has: hasPair, Absent: noPair, Long: true, Fails: http.StatusPreconditionFailed,
		Run: func(ctx context.Context, d Domain, in Promotion) (pair.Status, error) {
			if err := d.Pair.Promote(ctx, in); err != nil {
				return pair.Status{}, err
			}
			return d.Pair.PairStatus(), nil
		},
		Note: func(in Promotion, _ pair.Status) (int, []zap.Field) {
			return 0, []zap.Field{zap.Bool("primary_is_gone", in.PrimaryIsGone), zap.Bool("accept_loss", in.AcceptLoss), zap.Bool("register_is_gone", in.RegisterIsGone)}
		},
		Command: Command[Promotion, pair.Status]{
			Words: Words{Use: "promote", Short: "Make the standby of a pair the primary", Long: promoteHelp, Embedded: true},
			Ask: func(ctx context.Context, at Process, in Promotion) (string, error) {
				s, err := PairStatus().Do(ctx, at, None{})
				text := describe(s) + ". "
				if in.RegisterIsGone {
					text += "The machine of the primary must be off for good: if it serves, both machines serve, with different data. "
				}
				return text, err
			},
			Then: awaitPrimary,
			Text: func(s pair.Status) string {
				return fmt.Sprintf("this machine is the primary of term %d, and serves", s.Term)
			},
		},
	}
}

const promoteHelp = `Makes the standby the primary of the pair, through the admin address of its process. It waits until
the standby has applied almost all that it has (fanfare pair status shows the rest), and the primary
then hands over.

With --primary-is-gone it takes the place of a primary that was lost or cannot be reached. It waits until
the last promise of the standby is over, 3s at most, or, if the primary was alone, until the last promise
of the register is over, at most 5.25 times as long. No answered write is lost, even if the primary still
runs somewhere: such a primary answers nothing. The register must answer, and its entry decides whether the
two were paired. If they were not, the primary may have answered writes that the standby lacks: then only
--accept-loss promotes it, and these writes are lost.

With --register-is-gone it writes the first entry of a register that has lost its entry, or of a new one.
The machine of the primary must be off for good. Only writes that the primary answered alone are lost.

It prints the state, and asks, unless --yes is given. It ends when the new primary serves.`

// mostStart is the time for which the command waits until the new primary serves.
const mostStart = 2 * time.Minute

func awaitPrimary(ctx context.Context, at Process, s pair.Status) error {
	client, ok := at.(*Client)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, mostStart)
	defer cancel()
	if err := client.AwaitReady(ctx); err != nil {
		return fmt.Errorf("this machine is the primary of term %d: %w", s.Term, err)
	}
	return nil
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

// ForPeople answers browsers with pages, and all other requests with rest. Probes also get the answer of rest. If pages is nil, rest
// answers all requests.
func ForPeople(pages, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		wanted := strings.HasPrefix(r.URL.Path, "/console/") || strings.Contains(r.Header.Get("Accept"), "text/html")
		if pages != nil && reads && wanted && !IsHealth(r.URL.Path) {
			pages.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// IsHealth reports whether probes and balancers ask for path.
func IsHealth(path string) bool {
	return path == "/healthz" || path == "/servez" || path == "/readyz"
}

// NewStandbyHandler returns the handler of the admin address and the metrics address of a standby: /metrics, /healthz, and, with
// a pair, the operations on the pair.
func NewStandbyHandler(c Config, primary string) http.Handler {
	return besides(c, Standby(primary))
}

// NewWaitingHandler returns the handler of the admin address and the metrics address of a machine of a pair that waits at its
// start: as NewStandbyHandler, but each refusal names the reasons of the wait.
func NewWaitingHandler(c Config, reasons func() []string) http.Handler {
	return besides(c, starting(reasons))
}

// besides returns a handler for /metrics and, with a pair, the operations on the pair. The handler rest has the rest.
func besides(c Config, rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", ForPeople(c.Console, rest))
	mux.Handle("GET /metrics", metricsOf(c.Metrics))
	if c.Domain.Pair == nil {
		return mux
	}
	handleOperations(mux, Domain{Pair: c.Domain.Pair, About: c.Domain.About, Trail: NewTrail(c.Log), metrics: c.Metrics})
	return ownHost(c.Host, byActor(mux))
}
