package admin

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/ops/transfer"
)

// TransferPart is a part of the answer of an import or an export: Progress, Fault or Lines.
type TransferPart struct {
	Progress *transfer.Progress `json:"progress,omitempty"`
	// Fault is a fault of the files of an import.
	Fault string `json:"fault,omitempty"`
	// Lines are the next bytes of an export.
	Lines []byte `json:"lines,omitempty"`
}

// Importing names the files of an import, on the machine of the process.
type Importing struct {
	Files []string `json:"files"`
	// Rate is the maximum number of write units a second, 0 for no limit.
	Rate float64 `json:"rate"`
	// Part gets the progress and the faults.
	Part func(TransferPart) error `json:"-"`
}

func (in Importing) check() error {
	switch {
	case in.Rate < 0:
		return invalid("rate must be at least 0")
	case len(in.Files) == 0:
		return invalid("files must name a file")
	}
	return nil
}

// Import imports files. Package main has its command, which may also open a data directory.
func Import() Op[Importing, transfer.Imported] {
	return inParts(Op[Importing, transfer.Imported]{
		Name: "import", Route: "POST /admin/import", Form: `{"files": ["/…"], "rate": 0}`,
		Has: func(d Domain) bool { return d.Transfers != nil }, Long: true,
		Busy:  "another import is at work here: wait for its end, or stop it",
		Check: Importing.check,
		Run: func(ctx context.Context, d Domain, in Importing) (transfer.Imported, error) {
			cfg := *d.Transfers
			cfg.Rate, cfg.Progress = in.Rate, progressTo(in.Part)
			done, err := transfer.Import(ctx, cfg, in.Files)
			for _, fault := range transfer.Faults(err) {
				_ = in.Part(TransferPart{Fault: fault}) // the caller is gone, and err stays
			}
			return done, err
		},
		Note: func(_ Importing, done transfer.Imported) (int, []zap.Field) {
			fields := []zap.Field{zap.Any("left_out", done.LeftOut)}
			for _, kind := range slices.Sorted(maps.Keys(done.Records)) {
				fields = append(fields, zap.Int(kind, done.Records[kind]))
			}
			return int(done.WCU), fields
		},
	}, func(in *Importing) *func(TransferPart) error { return &in.Part })
}

// Exporting names the user of an export, "" for all users.
type Exporting struct {
	User string
	// Part gets the lines and the progress.
	Part func(TransferPart) error
}

// Exported is the end of an export.
type Exported struct{}

// exportBytes is the size of a part of an export.
const exportBytes = 64 << 10

// Export exports all users, or one user. Package main has its command, which may also open a data directory.
func Export() Op[Exporting, Exported] {
	return inParts(Op[Exporting, Exported]{
		Route: "GET /admin/export", Params: func(in *Exporting) []Param { return []Param{{Name: "user", At: &in.User}} },
		Has: func(d Domain) bool { return d.Transfers != nil }, Long: true,
		Busy:  "another export is at work here: wait for its end, or stop it", // an export has the ids of all users and posts in memory (I9)
		Check: func(in Exporting) error { return CheckIDs(in.User) },
		Run: func(ctx context.Context, d Domain, in Exporting) (done Exported, err error) {
			cfg := *d.Transfers
			cfg.Progress = progressTo(in.Part)
			out := bufio.NewWriterSize(parts(in.Part), exportBytes)
			if in.User != "" {
				err = transfer.ExportUser(ctx, cfg, in.User, out)
			} else {
				err = transfer.Export(ctx, cfg, out)
			}
			return done, errors.Join(err, out.Flush()) // an export without likes is whole but for the likes
		},
	}, func(in *Exporting) *func(TransferPart) error { return &in.Part })
}

// parts writes the lines of an export as parts.
type parts func(TransferPart) error

// Write implements io.Writer.
func (p parts) Write(lines []byte) (int, error) {
	if err := p(TransferPart{Lines: lines}); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// progressEvery is the shortest time between two parts with progress, except for the end of a phase: a transfer has millions of
// records, and its writers wait for each part.
const progressEvery = time.Second

// progressTo returns the progress of a transfer as parts.
func progressTo(part func(TransferPart) error) func(transfer.Progress) {
	var mu sync.Mutex
	var sent time.Time
	return func(p transfer.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if !p.Ended && time.Since(sent) < progressEvery {
			return
		}
		sent = time.Now()
		_ = part(TransferPart{Progress: &p}) // a caller that is gone ends the transfer by its context
	}
}
