package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/config"
	"fanfare/internal/datadir"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/audit"
	"fanfare/internal/restore"
	tableembedded "fanfare/internal/table/embedded"
)

// rehearsal is the result of a restore that verify --deep made.
type rehearsal struct {
	At       time.Time       `json:"at"`
	Term     uint64          `json:"term"`
	Items    int             `json:"items"`
	Findings []audit.Finding `json:"findings"`
}

var errNothingToRestore = errors.New("the archive has no base yet, so --deep has nothing to restore")

// drawn returns a time to which a restore can return, each with the same chance.
func drawn(lines []archive.Line) (restore.Target, error) {
	var whole time.Duration
	for _, line := range lines {
		for _, r := range line.Ranges {
			whole += r.To.Sub(r.From) + time.Millisecond
		}
	}
	if whole == 0 {
		return restore.Target{}, errNothingToRestore
	}
	at := rand.N(whole)
	for _, line := range lines {
		for _, r := range line.Ranges {
			length := r.To.Sub(r.From) + time.Millisecond
			if at < length {
				return restore.Target{At: r.From.Add(at).Truncate(time.Millisecond), Term: line.Term}, nil
			}
			at -= length
		}
	}
	return restore.Target{}, errNothingToRestore
}

// rehearse restores the archive to a drawn time into a temporary directory, and audits the table.
func (a *app) rehearse(ctx context.Context, cfg config.Config, from *archive.Archive) (done rehearsal, err error) {
	c, err := from.Catalog(ctx)
	if err != nil {
		return done, err
	}
	lines, err := from.Lines(ctx, c)
	if err != nil {
		return done, err
	}
	target, err := drawn(lines)
	if err != nil {
		return done, err
	}
	plan, err := restore.Find(ctx, from, target)
	if err != nil {
		return done, err
	}
	dir, err := os.MkdirTemp("", "fanfare-verify-")
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	shown := a.bytesRead("restored")
	err = restore.Run(ctx, from, plan, dir, restore.Options{Done: func(bytes int64) { shown(bytes, plan.Size()) }, Log: a.log(cfg)})
	if err != nil {
		return done, err
	}
	done = rehearsal{At: target.At, Term: plan.Term(), Findings: []audit.Finding{}}
	return done, audited(ctx, filepath.Join(dir, datadir.Table), cfg, &done)
}

// audited audits a restored table as of the time of its state, at which unfinished work is no finding.
func audited(ctx context.Context, dir string, cfg config.Config, done *rehearsal) (err error) {
	now := func() time.Time { return done.At }
	store, err := tableembedded.Open(dir, tableembedded.Options{Now: now, Log: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	sum, err := audit.New(audit.Config{
		Store: store, Local: true, Now: now, LikesByUser: bool(cfg.LikesByUser),
		Lifetimes: lifetime.New(lifetime.Config{Store: store, Now: now, TTL: cfg.TimelineTTL}),
	}).Run(ctx, audit.Walk{Found: func(f audit.Finding) error {
		if len(done.Findings) < mostListed {
			done.Findings = append(done.Findings, f)
		}
		return nil
	}})
	done.Items = sum.Items
	return err
}
