package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/datadir"
	"fanfare/internal/objects"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/restore"
	"fanfare/internal/stream"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
)

// archiveID is the id of the rows of the archive.
const archiveID = "T25"

// archiveUp is benchmark T25: the cost of an archive in a directory, and the speed of a restore.
func archiveUp(ctx context.Context, e *env) (_ []Result, err error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	a := &archiveRun{env: e, dir: dir}
	if err := os.Mkdir(a.store(), 0o700); err != nil {
		return nil, err
	}
	if err := a.posts(ctx); err != nil {
		return nil, err
	}
	if err := a.restores(ctx); err != nil {
		return nil, err
	}
	return a.results(), nil
}

// archiveRun is a run of benchmark T25.
type archiveRun struct {
	*env
	dir           string
	with, without postCost

	base, copied, log, replayed []Cost // of each turn
	baseBytes, logBytes         int64
}

func (a *archiveRun) store() string { return filepath.Join(a.dir, "archive") }

// posts makes posts on a server with an archive and on a server without, by turns.
func (a *archiveRun) posts(ctx context.Context) (err error) {
	const users = 2000
	var servers [2]*server
	var tokens [2][]string
	for i, name := range []string{"plain", "archived"} {
		at, env := filepath.Join(a.dir, name), []string{}
		if err := seed(ctx, at, circle(users)); err != nil {
			return err
		}
		if i == 1 {
			if err := a.fill(ctx, at); err != nil {
				return err
			}
			env = append(env, "FANFARE_ARCHIVE=file://"+a.store())
		}
		if servers[i], err = a.up(ctx, at, env...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, servers[i].stop()) }()
		if tokens[i], err = servers[i].tokensOf(users); err != nil {
			return err
		}
	}
	if err := a.awaitBase(ctx, servers[1], tokens[1][0]); err != nil {
		return err
	}
	turns, err := a.postsByTurns(ctx, servers, tokens, 64)
	a.without, a.with = turns[0], turns[1]
	return err
}

// fill makes the data of a directory large enough to measure the speed of a copy.
func (a *archiveRun) fill(ctx context.Context, dir string) (err error) {
	store, err := tableembedded.Create(filepath.Join(dir, datadir.Table), tableembedded.Options{SweepEvery: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	l := loader{ctx: ctx, store: store}
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1000)
	for i := range a.size(200_000, 30_000) {
		for at := range text {
			text[at] = 'a' + byte(random.Uint32()%26)
		}
		l.put(table.Item{Key: table.Key{PK: "fill#" + strconv.Itoa(i), SK: "x"}, Attrs: []table.Attr{{Name: "text", Value: table.S(string(text))}}})
	}
	l.flush()
	return l.err
}

func (a *archiveRun) open() (*archive.Archive, error) {
	store, err := objects.Location{Dir: a.store()}.Open(context.Background())
	if err != nil {
		return nil, err
	}
	return archive.New(store, time.Now)
}

// awaitBase waits for the first base, so that its work is not a part of the load. A base needs segments after its copy,
// so awaitBase makes posts.
func (a *archiveRun) awaitBase(ctx context.Context, s *server, token string) error {
	a.say("wait for the first base")
	opened, err := a.open()
	for err == nil {
		var ids []archive.BaseID
		if ids, err = opened.Bases(ctx); len(ids) > 0 {
			return nil
		}
		if err == nil {
			_, err = s.postAs(token)
		}
		err = errors.Join(err, a.pause(ctx, 300*time.Millisecond))
	}
	return err
}

// restores makes directories of the base and of the newest state, copies the files of the base, and lets Pebble replay the logs of
// the archive, by turns.
func (a *archiveRun) restores(ctx context.Context) error {
	opened, err := a.open()
	if err != nil {
		return err
	}
	newest, err := restore.Find(ctx, opened, restore.Target{})
	if err != nil {
		return err
	}
	based, err := restore.Find(ctx, opened, restore.Target{At: newest.Base.MadeAt})
	if err != nil {
		return err
	}
	for _, file := range based.Base.Files {
		a.baseBytes += file.Bytes
	}
	to := filepath.Join(a.dir, "to")
	for round := range a.size(turnsEach, 1) {
		a.say("restore a base of %d MB and the log after it, turn %d", a.baseBytes>>20, round+1)
		steps := []struct {
			costs *[]Cost
			do    func() error
		}{
			{&a.base, func() error { return a.restore(ctx, opened, based, to) }},
			{&a.copied, func() error { return a.copy(based.Base, to) }},
			{&a.log, func() error { return a.restore(ctx, opened, newest, to) }},
			{&a.replayed, func() error { return replayLogs(to) }},
		}
		for i, step := range steps {
			if i == len(steps)-1 {
				if a.logBytes, err = a.extend(ctx, opened, newest, to); err != nil {
					return err
				}
			}
			collect()
			before := ownUsage()
			err := step.do()
			*step.costs = append(*step.costs, ownUsage().since(before, 0))
			if err = errors.Join(err, os.RemoveAll(to)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *archiveRun) restore(ctx context.Context, from *archive.Archive, plan restore.Plan, to string) error {
	return restore.Run(ctx, from, plan, to, restore.Options{Done: func(int64) {}, Log: zap.NewNop()})
}

// copy copies the files of a base, and syncs them.
func (a *archiveRun) copy(base archive.Base, to string) error {
	for _, file := range base.Files {
		name := filepath.Join(to, filepath.FromSlash(file.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := copySynced(filepath.Join(a.store(), archive.FileName(file.SHA256)), name); err != nil {
			return err
		}
	}
	return nil
}

func copySynced(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}

func (a *archiveRun) results() []Result {
	const note = "the load alternates between two servers; the CPU time includes the segments"
	cpu := Result{
		ID: archiveID, Name: "CPU time of a post, archived", Value: a.with.cost.cpuEach(), Unit: "µs",
		Cost: &a.with.cost, BaselineCost: &a.without.cost, Latency: a.with.times,
		Note: fmt.Sprintf("%s; p99 without an archive: %.1f ms", note, a.without.times.P99),
	}.below("not archived", a.without.cost.cpuEach())
	late := Result{ID: archiveID, Name: "p99 of a post, archived", Value: a.with.times.P99, Unit: "ms"}.below("not archived", a.without.times.P99)
	base := a.restored("restore of a base", a.baseBytes, "synced copy", a.base, a.copied)
	after := make([]Cost, len(a.log)) // a restore of the newest state restores the base, too
	for i, c := range a.log {
		after[i] = Cost{WallSeconds: c.WallSeconds - a.base[i].WallSeconds, CPUSeconds: c.CPUSeconds - a.base[i].CPUSeconds}
	}
	log := a.restored("restore of the log", a.logBytes, "Pebble's replay", after, a.replayed)
	return []Result{
		cpu.reach("≤ 1.15 × without", cpu.Value <= 1.15**cpu.Baseline), late.reported(),
		base.reach("≥ 0.7 × baseline", *base.Ratio >= .7), log.reach("≥ 1 × baseline", *log.Ratio >= 1),
	}
}

// restored returns the row of a part of a restore.
func (a *archiveRun) restored(name string, bytes int64, baseline string, costs, baselines []Cost) Result {
	mb := float64(bytes) / 1e6
	cost, beside := median(costs), median(baselines)
	cost.Units, beside.Units = bytes/1000, bytes/1000
	return Result{
		ID: archiveID, Name: name, Value: mb / cost.WallSeconds, Unit: "MB/s", Cost: &cost, BaselineCost: &beside,
		Note: fmt.Sprintf("%.0f MB, by turns, medians of %d; the cost is for each kB", mb, len(costs)),
	}.beside(baseline, mb/beside.WallSeconds)
}

// median returns the cost with the median of the times.
func median(costs []Cost) Cost {
	sorted := slices.SortedFunc(slices.Values(costs), func(a, b Cost) int { return cmp.Compare(a.WallSeconds, b.WallSeconds) })
	return sorted[len(sorted)/2]
}

// extend makes the data directory of a base at the time of its copy, and adds the logs that the archive has after the
// base. It returns the number of bytes of these logs.
func (a *archiveRun) extend(ctx context.Context, from *archive.Archive, plan restore.Plan, to string) (size int64, err error) {
	if err := a.copy(plan.Base, to); err != nil {
		return 0, err
	}
	files := map[string]*os.File{}
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for s, err := range from.Segments(ctx, plan.Base.Term, plan.Base.First, plan.Base.First+uint64(plan.Segments)-1) {
		if err != nil {
			return 0, err
		}
		for reader := stream.NewReader(bytes.NewReader(s.Frames)); ; {
			frame, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return 0, err
			}
			if frame.Kind != stream.Bytes {
				continue
			}
			name := filepath.Join(to, []string{"", datadir.Queue, datadir.Table}[frame.Store], fmt.Sprintf("%06d.log", frame.Log))
			if files[name] == nil {
				if files[name], err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
					return 0, err
				}
			}
			if _, err := files[name].WriteAt(frame.Data, int64(frame.Offset)); err != nil {
				return 0, err
			}
			size += int64(len(frame.Data))
		}
	}
	return size, nil
}

// replayLogs opens the stores of a directory. Pebble replays their logs.
func replayLogs(dir string) error {
	queue, err := queueembedded.OpenReplica(nil, filepath.Join(dir, datadir.Queue), zap.NewNop())
	if err != nil {
		return err
	}
	tables, err := tableembedded.OpenReplica(nil, filepath.Join(dir, datadir.Table), zap.NewNop())
	if err != nil {
		return errors.Join(err, queue.Close(func() {}))
	}
	return errors.Join(queue.Close(func() {}), tables.Close(func() {}))
}
