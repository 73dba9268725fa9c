package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/obs"
)

func (a *app) upCommand() *cobra.Command {
	var withDemo, standby, asJSON bool
	c := &cobra.Command{
		Use:   "up",
		Short: "Run all of Fanfare in one process, on the embedded engine",
		Long: `Runs the API, fan-out and like counting in one process. It keeps the data in a directory,
by default fanfare-data in the current one; an answered write survives a crash. Ctrl-C
stops in order, a second Ctrl-C stops at once. With FANFARE_AUTH=dev, the default, it
listens on loopback only, because it gives a token to whoever asks.`,
		Args: cobra.NoArgs,
	}
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR, default fanfare-data)")
	c.Flags().String("http", "", "address of the API (FANFARE_HTTP_ADDR, default 127.0.0.1:8080)")
	c.Flags().String("admin", "", "address of metrics and operations (FANFARE_ADMIN_ADDR, default 127.0.0.1:9090)")
	c.Flags().BoolVar(&withDemo, "demo", false, "load a demo network of 300 people who post and like")
	c.Flags().BoolVar(&standby, "standby", false, "begin as the standby of FANFARE_PEER; later the data directory decides")
	c.Flags().BoolVar(&asJSON, "json", false, "print the addresses as one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		// This check is first, because on an aws environment all other faults do not matter to fanfare up.
		if slices.Contains(a.environ, "FANFARE_ENGINE=aws") {
			return wrongUse(errors.New("FANFARE_ENGINE: up runs on the embedded engine: unset it, or run fanfare api, fanout and likeagg"))
		}
		cfg, err := a.load(config.API, c, map[string]string{
			"data-dir": "FANFARE_DATA_DIR", "http": "FANFARE_HTTP_ADDR", "admin": "FANFARE_ADMIN_ADDR",
		})
		if err != nil {
			return err
		}
		if withDemo && cfg.Auth != config.AuthDev {
			return wrongUse(errors.New("--demo signs in as the people of the demo, by dev tokens: leave it out with FANFARE_AUTH=jwt"))
		}
		if withDemo && cfg.HasPair() {
			return wrongUse(errors.New("--demo is for one machine: leave it out, or remove FANFARE_PEER"))
		}
		cfg.ForUp()
		return a.up(c.Context(), daemon.Options{Config: cfg, Standby: standby}, withDemo, asJSON)
	}
	return c
}

func (a *app) up(ctx context.Context, opt daemon.Options, withDemo, asJSON bool) error {
	log := obs.NewLogger(a.stderr, opt.Config.LogLevel, isTerminal(a.stderr))
	demoCtx, endDemo := context.WithCancel(ctx)
	var demo sync.WaitGroup
	defer demo.Wait()
	defer endDemo()
	opt.Roles = daemon.Roles{API: true, Fanout: true, Likes: true}
	opt.Version, opt.Log, opt.Environ = obs.ReadBuild().Version, log, a.environ
	opt.Ready = func(at daemon.Addresses) {
		if err := a.printReady(at, asJSON); err != nil {
			log.Warn("could not print the addresses", zap.Error(err))
		}
		if withDemo {
			demo.Go(func() { a.demo(demoCtx, "http://"+at.HTTP, log) })
		}
	}
	if withDemo {
		opt.Suggested, opt.ChunkSize = demoSuggested(), demoChunk
	}
	return daemon.Run(ctx, opt)
}

func (a *app) printReady(at daemon.Addresses, asJSON bool) error {
	url, operator := "http://"+at.HTTP, "http://"+at.Admin
	switch {
	case asJSON:
		return a.printJSON(struct {
			URL     string `json:"url"`
			Docs    string `json:"docs"`
			Admin   string `json:"admin"`
			Standby bool   `json:"standby,omitempty"`
		}{url, url + "/docs", operator, at.Standby})
	case at.Standby:
		return a.println("Fanfare is the standby of another machine (admin: %s)", operator)
	default:
		return a.println("Fanfare is ready at %s (API: %s/docs, admin: %s)", url, url, operator)
	}
}
