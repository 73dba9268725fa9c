package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/obs"
	"fanfare/internal/strictjson"
)

func (a *app) healthCommand() *cobra.Command {
	var url string
	var timeout time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "health",
		Short: "Check that a process serves, for container health checks",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&url, "url", "", "`URL` to ask (default /servez of FANFARE_ADMIN_ADDR on this machine; /readyz names a dependency that fails)")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if url == "" {
			cfg, err := a.load(config.Tool, c, nil)
			if err != nil {
				return err
			}
			url = admin.BaseURL(cfg.AdminAddr) + "/servez"
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return wrongUse(fmt.Errorf("--url: %w", err))
		}
		res, err := (&http.Client{}).Do(req)
		if err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, 4096))
		if err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		text := printable(strings.TrimSpace(string(body)))
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s: %s", url, res.Status, text)
		}
		if asJSON {
			var answer map[string]any
			if err := strictjson.Unmarshal(body, &answer); err != nil {
				return fmt.Errorf("%s did not answer a JSON object: run without --json: %w", url, err)
			}
			return a.printJSON(answer)
		}
		return a.println("%s", text)
	}
	return c
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  cobra.NoArgs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(*cobra.Command, []string) error {
		b := obs.ReadBuild()
		if asJSON {
			return a.printJSON(b)
		}
		return a.println("fanfare %s", b)
	}
	return c
}
