package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"fanfare/internal/daemon"
)

// service is a daemon that this binary can run.
type service struct {
	name, short string
	roles       daemon.Roles
}

func services() []service {
	return []service{
		{"api", "Run the daemon that serves the HTTP API, on AWS", daemon.Roles{API: true}},
		{"fanout", "Run the daemon that delivers posts, on AWS", daemon.Roles{Fanout: true}},
		{"likeagg", "Run the daemon that counts likes, on AWS", daemon.Roles{Likes: true}},
	}
}

// daemonNames returns the names of the daemons.
func daemonNames() (names []string) {
	for _, s := range services() {
		names = append(names, s.name)
	}
	return names
}

// called returns the daemon that a program with the given name runs. The image has links to
// this binary, with the names of the daemons.
func called(program string) (service, bool) {
	for _, s := range services() {
		if s.name == filepath.Base(program) {
			return s, true
		}
	}
	return service{}, false
}

func (a *app) daemon(ctx context.Context, s service, name string, args []string) int {
	return daemon.Program{Name: name, Roles: s.roles, Environ: a.environ, Stdout: a.stdout, Stderr: a.stderr}.Main(ctx, args)
}

// exitError has the exit code of a daemon that has already reported its error.
type exitError struct{ code int }

func (e *exitError) Error() string { return "the daemon failed" }

// serviceCommand returns the command that runs a daemon, such as `fanfare api`. The daemon
// itself parses its arguments, so the flags, the help and the exit codes are the daemon's.
func (a *app) serviceCommand(s service) *cobra.Command {
	return &cobra.Command{
		Use: s.name, Short: s.short, DisableFlagParsing: true,
		Long: s.short + ". It takes no arguments: it reads FANFARE_* and the AWS SDK's variables.",
		RunE: func(c *cobra.Command, args []string) error {
			if code := a.daemon(c.Context(), s, c.CommandPath(), args); code != daemon.ExitOK {
				return &exitError{code}
			}
			return nil
		},
	}
}
