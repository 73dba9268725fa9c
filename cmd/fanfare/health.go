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
	c := &cobra.Command{
		Use:   "health",
		Short: "Check that a process serves, for container health checks",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&url, "url", "", "`URL` to ask (default /servez of FANFARE_ADMIN_ADDR on this machine; /readyz names a dependency that fails)")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait")
	return a.answers(c, func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		if url == "" {
			cfg, err := a.load(config.Tool, c, nil)
			if err != nil {
				return answer, err
			}
			url = admin.BaseURL(cfg.AdminAddr) + "/servez"
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return answer, wrongUse(fmt.Errorf("--url: %w", err))
		}
		res, err := (&http.Client{}).Do(req)
		if err != nil {
			return answer, fmt.Errorf("no answer: %w", err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, 4096))
		if err != nil {
			return answer, fmt.Errorf("no answer: %w", err)
		}
		text := printable(strings.TrimSpace(string(body)))
		if res.StatusCode != http.StatusOK {
			return answer, fmt.Errorf("%s answered %s: %s", url, res.Status, text)
		}
		var said map[string]any
		if err := strictjson.Unmarshal(body, &said); err != nil && u.json {
			return answer, fmt.Errorf("%s did not answer a JSON object: run without --json: %w", url, err)
		}
		return admin.Answer{JSON: said, Text: text}, nil
	})
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  cobra.NoArgs,
	}
	return a.answers(c, func(context.Context, *use) (admin.Answer, error) {
		b := obs.ReadBuild()
		return admin.Answer{JSON: b, Text: fmt.Sprintf("fanfare %s", b)}, nil
	})
}
