package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"fanfare/internal/config"
	"fanfare/internal/obs"
)

// Exit codes of every program.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// Main is the whole of a production daemon's main: it reads its configuration from
// environ, runs until ctx ends, and returns the exit code. What goes wrong is one
// line on stderr.
func Main(ctx context.Context, name string, roles Roles, args, environ []string, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		// Nothing can be done about a stderr that is gone.
		_, _ = fmt.Fprintf(stderr, "%s is a daemon of Fanfare on AWS. It takes no arguments: it reads FANFARE_* and the AWS SDK's variables.\n", name)
		return ExitOK
	case err != nil:
		return fail(stderr, name, ExitUsage, fmt.Errorf("%w: see %s --help", err, name))
	}
	if flags.NArg() > 0 {
		return fail(stderr, name, ExitUsage, fmt.Errorf("takes no arguments, but was given %q: see %s --help", flags.Arg(0), name))
	}
	role := config.Worker
	if roles.API {
		role = config.API
	}
	cfg, err := config.Load(environ, role)
	if err != nil {
		return fail(stderr, name, ExitUsage, err)
	}
	if cfg.Engine != config.EngineAWS {
		return fail(stderr, name, ExitUsage, errors.New("FANFARE_ENGINE: embedded belongs to one process: set it to aws, or run fanfare up"))
	}
	CollectLater(environ)
	log := obs.NewLogger(stderr, cfg.LogLevel, false)
	err = Run(ctx, Options{Config: cfg, Roles: roles, Version: obs.ReadBuild().Version, Log: log})
	if err != nil {
		return fail(stderr, name, ExitFailure, err)
	}
	return ExitOK
}

func fail(stderr io.Writer, name string, code int, err error) int {
	// Nothing can be done about a stderr that is gone.
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", name, OneLine(err))
	return code
}

// OneLine is an error as one line: joined errors stand on lines of their own.
func OneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}
