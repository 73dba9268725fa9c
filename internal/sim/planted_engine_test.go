package sim

import "strings"

// onEngine is the beginning of the names of the bugs that seeds find on the embedded engine.
const onEngine = "engine: "

// args returns the arguments of a run that searches for the bug.
func (b bug) args() []string {
	switch {
	case strings.HasPrefix(b.name, onEngine):
		return []string{"-embedded"}
	case strings.HasPrefix(b.name, ofArchive):
		return []string{"-embedded", "-archived"}
	}
	return nil
}

// engineBugs returns the planted bugs of the embedded stores.
func engineBugs() []bug {
	const (
		durable = "internal/table/embedded/durable.go"
		write   = "internal/table/embedded/write.go"
		writer  = "internal/queue/embedded/writer.go"
		guard   = "internal/disk/guard.go"
		logs    = "internal/queue/embedded/log.go"
	)
	return []bug{
		{onEngine + "write answered before its sync", "I5", []edit{
			{durable, `write: db.ApplyNoSyncWait,`, `write: func(b *pebble.Batch, _ *pebble.WriteOptions) error { return db.Apply(b, pebble.NoSync) },`},
			{durable, `next.err = next.batch.SyncWait()`, `next.err = nil`},
		}},
		{onEngine + "index without the hint of a changed item", "I5", []edit{{write, `	if is && !stays {`, `	if is && !was {`}}},
		{onEngine + "publish answered before its sync", "I5", []edit{{writer, `durable, b.callers = true, callers`, `b.callers = callers`}}},
		{onEngine + "counts of a topic ahead of its log", "I5 I6", []edit{{writer, `	for _, t := range topics {
		if err := t.stageState(batch, changes); err != nil {
			return err
		}
	}
`, `	ahead := b.db.NewBatch()
	for _, t := range topics {
		if err := t.stageState(ahead, changes); err != nil {
			return err
		}
	}
	if err := ahead.Commit(pebble.Sync); err != nil {
		return err
	}
`}}},
		{onEngine + "failed sync tried again", "I5", []edit{{guard, `			return errors.New("sync: " + err.Error()) // not wrapped, or write would wait for room
`, `			return op()
`}}},
		{onEngine + "failed log answered as if it were full", "I5", []edit{{guard, `			d.fail(ErrFailed, err, true)
			park()
		}
	}
}`, `			d.fail(ErrFull, err, true)
			park()
		}
	}
}`}}},
		{onEngine + "no write after a refused sorted file", "I5", []edit{{"internal/disk/disk.go", `d.recovered(ErrStuck)`, `d.recovered(ErrFull)`}}},
		{onEngine + "failed read taken for an absent item", "I5", []edit{{"internal/table/embedded/read.go", `	if errors.Is(err, pebble.ErrNotFound) {`, `	if err != nil {`}}},
		{onEngine + "lost log not looked for", "I5", []edit{{"internal/disk/needs.go", `		case errors.Is(err, fs.ErrNotExist):
			return &DamageError{name, "is absent"}
		case err != nil:
			return err
		case info`, `		case err != nil:
			continue
		case info`}}},
		{onEngine + "position of an event goes back after a restart", "I6", []edit{{logs, `		l.removed, _ = positionOf(raw)
		l.last = l.staged
`, `		l.removed, _ = positionOf(raw)
		l.last, l.staged = l.staged, position{number: l.staged.number}
`}}},
		{onEngine + "event answered before it is in the log", "I6", []edit{{logs, `	if err := b.submitAndWait(msgs[0].Context(), changes); err != nil {
		return fmt.Errorf("write`, `	if err := b.submit(request{changes: changes}, true, false); err != nil {
		return fmt.Errorf("write`}}},
		{onEngine + "young events removed", "I6", []edit{{logs, `before := b.now().Add(-b.eventsKept)`, `before := b.now().Add(-b.eventsKept / 2)`}}},
		{onEngine + "late reader not told", "I6", []edit{{logs, `after != "" && from.less(removed) {`, `after != "" && from.less(removed) && removed == last {`}}},
		{onEngine + "removed events forgotten by a restart", "I6", []edit{{logs, `removed.append(l.staged.append(nil))`, `position{number: min(0, removed.number)}.append(l.staged.append(nil))`}}},
		{onEngine + "last event of a cut page skipped", "I6", []edit{{logs, `		} else if !yield(found.String(), msg.Payload) {
`, `		} else if !yield(found.String(), msg.Payload) {
			at = found
`}}},
		{onEngine + "acked message kept", "I6", []edit{{writer, `	if c.from != nowhere {
		if err`, `	if c.from != nowhere && c.to != nowhere {
		if err`}}},
	}
}
