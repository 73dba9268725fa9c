package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/removal"
	"fanfare/internal/ops/audit"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/pair"
	"fanfare/internal/queue"
)

// Domain has the parts of a process on which operations work. A process without a part does not have its operations.
type Domain struct {
	Deliveries interface {
		Reconcile(ctx context.Context, since, until time.Time, cursor string, limit int) (delivery.Reconciled, error)
		AnyDelivery(ctx context.Context, post string) (delivery.Progress, error)
	}
	Homes interface {
		Explain(ctx context.Context, letters queue.DeadLetters, user, post string) ([]home.Explanation, error)
	}
	Letters queue.DeadLetters
	Audit   interface {
		Run(ctx context.Context, w audit.Walk) (audit.Summary, error)
	}
	// Items estimates the number of items of the table; if Items is nil, the number is
	// unknown.
	Items func(context.Context) (int64, error)
	// Backups copies the data of this process into a new directory.
	Backups interface {
		Backup(ctx context.Context, dir string) (Backup, error)
	}
	Pair Pair
	// History has the metrics of the past hour.
	History *History
	// Shown reads posts and users for moderators.
	Shown Shown
	// Posts takes posts down, and Removals removes users.
	Posts interface {
		TakeDown(ctx context.Context, by, post, reason string) (feed.TakeDown, error)
	}
	Removals interface {
		Remembered(ctx context.Context, user string) (removal.Knowledge, error)
		Remove(ctx context.Context, user string, progress func(removed int)) error
	}
	// Transfers has the parts of imports and exports.
	Transfers *transfer.Config
	// LikesByUser means that a removal finds the likes of a user.
	LikesByUser bool
	Now         func() time.Time
	// About is the zero value if the process does not show its status.
	About About
	// Trail gets a line for each change.
	Trail Trail

	// The handler sets metrics and health.
	metrics prometheus.Gatherer
	health  *Health
}

// Pair is the pair of a process.
type Pair interface {
	PairStatus() pair.Status
	// Promote makes a standby the primary.
	Promote(ctx context.Context, in Promotion) error
	// Move makes a primary and its standby use another register.
	Move(ctx context.Context, in Move) error
}

// Operations returns all operations. Each has a handler of the admin address, and a command here or in package main.
func Operations() []Operation {
	return []Operation{
		ShowStatus(), ListLetters(), Redrive(), Drop(),
		Explain(), Delivery(), Reconcile(), Verify(), MakeBackup(), PairStatus(), Promote(), MovePair(),
		ShowPost(), ShowUser(), TakeDown(), Forget(), Import(), Export(), ShowHistory(),
	}
}

// handleOperations adds the operations that a process has to mux.
func handleOperations(mux *http.ServeMux, d Domain) {
	for _, o := range Operations() {
		o.handle(mux, d)
	}
}
