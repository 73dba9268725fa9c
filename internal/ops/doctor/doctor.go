// Package doctor examines the needs of a process before the process runs: settings, table,
// queues, permissions, clock and keys. Its table of permissions is also the source of the IAM
// policies. Package doctor changes nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/zap"

	"fanfare/internal/awsclient"
	"fanfare/internal/clock"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// Level is the severity of a Finding.
type Level string

// The levels of a finding. A process with a fault does not work, or loses data.
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning"
	LevelFault   Level = "fault"
)

// Finding is the result of one check of Examine.
type Finding struct {
	Level Level  `json:"level"`
	Check string `json:"check"`
	Says  string `json:"says"`
	// Mend is the remedy for a warning or a fault.
	Mend string `json:"mend,omitempty"`
}

const (
	// examineTime is the timeout of each part of an examination.
	examineTime = time.Minute
	// tokenSkew is the accepted clock skew of tokens.
	tokenSkew = 30 * time.Second
)

// examination collects findings.
type examination struct {
	cfg config.Config
	// faults has the faults of the environment. If it has faults, cfg has only the values that could be read.
	faults *config.Error
	// duties are the duties whose calls are tried.
	duties []string
	now    func() time.Time
	clock  *clock.Clock
	found  []Finding
	// away is the first failure which shows that an endpoint cannot be reached.
	away error
}

// Examine checks all needs of a process with the given roles, or of an operator if there is no role.
// It changes nothing: the conditions of its writes fail, its messages are refused, and the object that it puts
// into an archive is deleted. faults has the
// faults of the environment, nil for none. Examine leaves out the parts that need a faulty value.
func Examine(ctx context.Context, cfg config.Config, faults *config.Error, roles daemon.Roles, now func() time.Time) []Finding {
	if faults == nil {
		faults = new(config.Error)
	}
	e := &examination{cfg: cfg, faults: faults, duties: roles.Names(), now: now, clock: clock.New(now)}
	if len(e.duties) == 0 {
		e.duties = []string{dutyOperator}
	}
	e.settings()
	var parts []func(context.Context)
	switch {
	case faults.In("FANFARE_ENGINE"): // nobody knows where the data is
	case cfg.Engine == config.EngineEmbedded:
		parts = append(parts, e.directory)
		if cfg.Archive != "" {
			parts = append(parts, e.archive)
		}
		if cfg.HasPair() && !faults.In("FANFARE_PEER", "FANFARE_PEER_CERT", "FANFARE_PEER_KEY", "FANFARE_PEER_CA") {
			parts = append(parts, e.peer)
		}
		if cfg.Register != "" && !faults.In("FANFARE_REGISTER") {
			parts = append(parts, e.register)
		}
	default:
		parts = append(parts, e.aws)
	}
	if cfg.EventsQueue != "" && !faults.In("FANFARE_EVENTS_QUEUE") && e.need("sqs:SendMessage", theEvents) {
		parts = append(parts, e.events)
	}
	if roles.API && cfg.Auth == config.AuthJWT && !faults.In("FANFARE_JWT_ISSUER", "FANFARE_JWKS_URL") {
		parts = append(parts, e.keys)
	}
	for _, part := range parts {
		ctx, cancel := context.WithTimeout(ctx, examineTime)
		part(ctx)
		cancel()
	}
	return e.found
}

func (e *examination) note(level Level, check, mend, format string, args ...any) {
	e.found = append(e.found, Finding{level, check, daemon.OneLine(fmt.Errorf(format, args...)), mend})
}

func (e *examination) ok(check, format string, args ...any) {
	e.note(LevelOK, check, "", format, args...)
}

func (e *examination) settings() {
	for _, fault := range e.faults.Faults {
		e.note(LevelFault, "configuration", "see docs/CONFIGURATION.md", "%s", fault)
	}
	if len(e.faults.Faults) == 0 {
		e.ok("configuration", "all settings are valid; the engine is %s", e.cfg.Engine)
	}
	for _, c := range e.cfg.Contradictions() {
		level := LevelWarning
		if c.Fatal {
			level = LevelFault
		}
		e.note(level, "configuration", c.Mend, "%s", c.Says)
	}
}

func (e *examination) keys(ctx context.Context) {
	at, mend := e.cfg.JWKSURL, "correct FANFARE_JWKS_URL, or let this machine reach it"
	if at == "" {
		at, mend = e.cfg.JWTIssuer, "correct FANFARE_JWT_ISSUER to the letter, set FANFARE_JWKS_URL, or let this machine reach the issuer"
	}
	if err := daemon.NewKeySet(e.cfg, e.now, zap.NewNop()).Ready(ctx); err != nil {
		e.note(LevelFault, "keys", mend, "%w", err)
		return
	}
	e.ok("keys", "%s has keys to check tokens with", at)
}

// directory examines the data directory of the embedded engine.
func (e *examination) directory(context.Context) {
	dir := e.cfg.DataDir
	state, err := datadir.Look(dir)
	switch {
	case err != nil:
		e.note(LevelFault, "data directory", "choose another FANFARE_DATA_DIR, or let this user write to it", "%w", err)
		return
	case !state.Exists:
		e.ok("data directory", "there is no %s yet: fanfare up makes it", dir)
		return
	case state.InUse:
		e.ok("lock", "a process has %s open: fanfare health asks it", dir)
	default:
		e.ok("lock", "no process has %s open", dir)
	}
	e.ok("TTL of homes", "fanfare up stores FANFARE_TIMELINE_TTL, which is %s: in place of another one it is in force a day later", e.cfg.TimelineTTL)
	formats := true
	for _, store := range []string{"table", "queue"} {
		path := filepath.Join(dir, store)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := disk.CheckStore(path); err != nil {
			formats = false
			e.note(LevelFault, "format", "use the newest fanfare that ran here, or restore the directory from a backup", "%s: %w", path, err)
		}
	}
	if formats {
		e.ok("format", "this version reads what %s has", dir)
	}
	switch {
	case e.cfg.Archive == "" && e.cfg.Peer == "":
		e.note(LevelWarning, "archive", "set FANFARE_ARCHIVE, or FANFARE_PEER for a standby (docs/ONE_MACHINE.md)", "neither an archive nor a standby has the data: the loss of the disk loses everything since the last backup")
	case e.cfg.Archive == "":
		e.note(LevelWarning, "archive", "set FANFARE_ARCHIVE on both machines (docs/ONE_MACHINE.md)", "no archive has the data: only the standby has it, too")
	}
	if err := disk.Room(dir); err != nil {
		e.note(LevelWarning, "disk", "make room, or move the directory to a larger disk", "%w", err)
		return
	}
	e.ok("disk", "there is room")
}

func (e *examination) aws(ctx context.Context) {
	store, err := daemon.OpenTable(ctx, e.cfg, e.clock)
	if err != nil {
		e.note(LevelFault, "AWS", "see docs/CONFIGURATION.md, Variables of AWS and Go", "%w", err)
		return
	}
	broker, err := daemon.OpenSQS(ctx, sqs.Options{Prefix: e.cfg.QueuePrefix, Now: e.now}, e.clock)
	if err != nil {
		e.note(LevelFault, "AWS", "see docs/CONFIGURATION.md, Variables of AWS and Go", "%w", err)
		return
	}
	e.ok("AWS", "there are a region and credentials")
	if !e.faults.In("FANFARE_TABLE") && e.table(ctx, store) && e.format(ctx, store) {
		e.lifetimes(ctx, store)
		e.shared(ctx, store)
		e.tableCalls(ctx, store)
	}
	if !e.faults.In("FANFARE_QUEUE_PREFIX") {
		e.queues(ctx, broker)
	}
	if err := broker.Close(); err != nil {
		e.note(LevelWarning, "queues", "run it again", "a request did not end: %w", err)
	}
	e.time()
}

// table examines the shape of the table, and reports whether calls of the table can be tried.
func (e *examination) table(ctx context.Context, store *dynamo.Store) bool {
	d, err := store.Describe(ctx)
	switch {
	case err == nil:
	case awsclient.Missing(err):
		e.note(LevelFault, "table", "make it with fanfare table create, or correct FANFARE_TABLE, AWS_REGION or AWS_ENDPOINT_URL", "%w", err)
		return false
	case !awsclient.Refused(err):
		e.note(LevelFault, "table", mendAway, "%w", err)
		return false
	default:
		e.note(LevelWarning, "table", "allow dynamodb:DescribeTable and dynamodb:DescribeTimeToLive to whoever runs this", "its keys, index and expiry could not be checked: %w", err)
		return true
	}
	for _, difference := range d.Differences {
		e.note(LevelFault, "table", "choose another FANFARE_TABLE, or delete this one and run fanfare table create", "%s", difference)
	}
	if len(d.Differences) > 0 {
		return false
	}
	if d.Status != string(types.TableStatusActive) {
		e.note(LevelFault, "table", "wait until it is ACTIVE", "%s is %s", d.Name, d.Status)
		return false
	}
	e.ok("table", "%s is ACTIVE, with its keys and its index", d.Name)
	if d.TTL == "" {
		e.note(LevelFault, "expiry", "run fanfare table create: it switches expiry on", "items of %s do not expire, so it grows for ever", d.Name)
	} else {
		e.ok("expiry", "items expire by %s", d.TTL)
	}
	e.units(ctx, d)
	e.safety(ctx, store, d)
	return true
}

// format examines the format of the table's items, and reports whether calls of the table can be tried.
func (e *examination) format(ctx context.Context, store *dynamo.Store) bool {
	err := store.Ping(ctx)
	if _, other := errors.AsType[*dynamo.FormatError](err); other {
		e.note(LevelFault, "format", "make a new table with fanfare table create, or use the fanfare that wrote this one", "%w", err)
		return false
	}
	if err == nil { // after an error, tableCalls reports the failed call
		e.ok("format", "this version reads what %s has", e.cfg.Table)
	}
	return true
}

// safety examines the settings that protect a table from mistakes.
func (e *examination) safety(ctx context.Context, store *dynamo.Store, d dynamo.Description) {
	if d.DeletionProtection {
		e.ok("deletion protection", "it is on")
	} else {
		e.note(LevelWarning, "deletion protection", "aws dynamodb update-table --deletion-protection-enabled --table-name "+d.Name, "one call deletes %s", d.Name)
	}
	switch on, err := store.PointInTimeRecovery(ctx); {
	case err != nil:
		e.note(LevelWarning, "point-in-time recovery", "allow dynamodb:DescribeContinuousBackups to whoever runs this", "it could not be checked: %w", err)
	case on:
		e.ok("point-in-time recovery", "it is on")
	default:
		e.note(LevelWarning, "point-in-time recovery",
			"aws dynamodb update-continuous-backups --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true --table-name "+d.Name, "%s has no backup of its own", d.Name)
	}
}

// tableCalls tries each kind of call that the roles make. Most writes have a condition that no item
// fulfils. The batch of writes, which cannot have a condition, deletes an item that does not exist.
func (e *examination) tableCalls(ctx context.Context, store *dynamo.Store) {
	key, other := table.Key{PK: "ping", SK: "ping"}, table.Key{PK: "ping", SK: "pong"}
	put := table.PutInput{Item: table.Item{Key: other}, If: table.Exists{}}
	need := func(action string) bool { return e.need(action, theTable) }
	query := func(index bool) error {
		for _, err := range store.Query(ctx, table.Query{Index: index, PK: "ping", PageSize: 1}) {
			return err
		}
		return nil
	}
	e.try("calls to the table", []trial{
		{need("dynamodb:GetItem"), "dynamodb:GetItem", func() error { return store.Ping(ctx) }},
		{need("dynamodb:BatchGetItem"), "dynamodb:BatchGetItem", func() error {
			_, err := store.BatchGet(ctx, table.BatchGetInput{Keys: []table.Key{key}})
			return err
		}},
		{need("dynamodb:PutItem"), "dynamodb:PutItem", func() error {
			_, err := store.Put(ctx, put)
			return err
		}},
		{need("dynamodb:UpdateItem"), "dynamodb:UpdateItem", func() error {
			_, err := store.Update(ctx, table.UpdateInput{Key: key, Set: []table.Attr{{Name: "none", Value: table.N(0)}}, If: table.Exists{}})
			return err
		}},
		{need("dynamodb:DeleteItem"), "dynamodb:DeleteItem", func() error {
			_, err := store.Delete(ctx, table.DeleteInput{Key: key, If: table.Exists{}})
			return err
		}},
		{need("dynamodb:BatchWriteItem"), "dynamodb:BatchWriteItem", func() error {
			_, err := store.BatchWrite(ctx, []table.BatchWrite{{Delete: key}})
			return err
		}},
		{need("dynamodb:ConditionCheckItem"), "dynamodb:ConditionCheckItem and transactions", func() error {
			_, err := store.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{{Check: &table.CheckInput{Key: key, If: table.Exists{}}}, {Check: &table.CheckInput{Key: other, If: table.Exists{}}}}})
			return err
		}},
		{need("dynamodb:Query"), "dynamodb:Query of the table", func() error { return query(false) }},
		{e.need("dynamodb:Query", theIndex), "dynamodb:Query of its index", func() error { return query(true) }},
		{need("dynamodb:Scan"), "dynamodb:Scan", func() error {
			_, err := store.Scan(ctx, table.ScanInput{PageSize: 1})
			return err
		}},
	})
}

// need reports whether one of the duties makes the call action on resource.
func (e *examination) need(action, resource string) bool {
	return need(withAuditor(e.cfg, e.duties), action, resource)
}

// trial is an attempt of a call that needs a permission.
type trial struct {
	needed     bool
	permission string
	call       func() error
}

// try makes the needed trials, and reports one finding for all permitted calls together.
func (e *examination) try(check string, trials []trial) {
	var permitted []string
	for _, t := range trials {
		if !t.needed {
			continue
		}
		err := t.call()
		_, condition := errors.AsType[*table.ConditionError](err)
		_, cancelled := errors.AsType[*table.CancelledError](err)
		switch {
		case err == nil || condition || cancelled:
			permitted = append(permitted, t.permission)
		case awsclient.Refused(err):
			e.note(LevelFault, check, "allow "+t.permission+" to the role of "+strings.Join(e.duties, ", "), "%s is refused: %w", t.permission, err)
		default:
			e.note(LevelWarning, check, "run it again, or ask the policy simulator of IAM", "%s could not be checked: %w", t.permission, err)
		}
	}
	if len(permitted) > 0 {
		e.ok(check, "permitted: %s", strings.Join(permitted, ", "))
	}
}

// time compares the clock with the times in the replies of AWS.
func (e *examination) time() {
	const mend = "let the machine take its time from NTP or chrony"
	ahead := e.clock.Offset()
	switch err := e.clock.Doubt(); {
	case !e.clock.Told():
		e.note(LevelWarning, "clock", "see the faults above", "no reply of AWS told the time, so the clock could not be checked")
	case err != nil:
		e.note(LevelFault, "clock", mend, "%w", err)
	case ahead.Abs() > tokenSkew:
		e.note(LevelWarning, "clock", mend, "the clock is %s off, and a token is refused that is not valid yet by %s", ahead.Round(time.Second), tokenSkew)
	default:
		e.ok("clock", "it is within %s of AWS's", tokenSkew)
	}
}
