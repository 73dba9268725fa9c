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

// Main is the main function of a production daemon: it reads its configuration from
// environ, runs until ctx ends, and returns the exit code. A failure is one line on stderr.
func Main(ctx context.Context, name string, roles Roles, args, environ []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	version := flags.Bool("version", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		help := name + " is a daemon of Fanfare on AWS. It takes no arguments but --version, and reads FANFARE_* and the variables of the AWS SDK."
		_, _ = fmt.Fprintln(stderr, help) // if stderr is gone, nobody is left to tell
		return ExitOK
	case err != nil:
		return fail(stderr, name, ExitUsage, fmt.Errorf("%w: see %s --help", err, name))
	}
	if *version {
		_, _ = fmt.Fprintf(stdout, "%s %s\n", name, obs.ReadBuild()) // if stdout is gone, nobody is left to tell
		return ExitOK
	}
	if flags.NArg() > 0 {
		return fail(stderr, name, ExitUsage, fmt.Errorf("takes no arguments, but got %q: see %s --help", flags.Arg(0), name))
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
		return fail(stderr, name, ExitUsage, errors.New("FANFARE_ENGINE: embedded is for one process only: set it to aws, or run fanfare up"))
	}
	CollectLater(environ)
	log := obs.NewLogger(stderr, cfg.LogLevel, false)
	err = Run(ctx, Options{Config: cfg, Roles: roles, Version: obs.ReadBuild().Version, Log: log, Environ: environ})
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

// OneLine formats an error as one line. Joined errors have a line each, and the command
// line's suggestions have one after their question.
func OneLine(err error) string {
	line := ""
	for text := range strings.Lines(err.Error()) {
		switch text = strings.TrimSpace(text); {
		case line == "" || text == "":
			line += text
		case strings.HasSuffix(line, "?"):
			line += " " + text
		default:
			line += "; " + text
		}
	}
	return line
}
