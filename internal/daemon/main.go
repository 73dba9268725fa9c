package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"fanfare/internal/config"
	"fanfare/internal/obs"
	"fanfare/internal/terminal"
)

// The exit codes of every program.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
	// ExitFenced is the code of a process that must not write to its archive, because another
	// process, other data or the original of its copied directory has it, or whose data directory is
	// an old copy of a machine of a pair.
	// A restart of the process has the same end.
	ExitFenced = 4
)

// Program is the command line of a daemon on AWS.
type Program struct {
	// Name begins the lines on Stderr.
	Name           string
	Roles          Roles
	Environ        []string
	Stdout, Stderr io.Writer
}

// Execute runs the daemon with the given roles in this process, and returns the exit code.
func Execute(roles Roles) int {
	ctx, stop := Signals(context.Background())
	defer stop()
	return Program{roles.Names()[0], roles, os.Environ(), os.Stdout, os.Stderr}.Main(ctx, os.Args[1:])
}

// Main runs the program until ctx ends, and returns the exit code. A failure is reported as
// one line on Stderr.
func (p Program) Main(ctx context.Context, args []string) int {
	if len(args) > 0 {
		return p.about(args[0])
	}
	role := config.Worker
	if p.Roles.API {
		role = config.API
	}
	cfg, err := config.Load(p.Environ, role)
	if err != nil {
		return p.fail(ExitUsage, err)
	}
	if cfg.Engine != config.EngineAWS {
		return p.fail(ExitUsage, errors.New("FANFARE_ENGINE: embedded is for one process only: set it to aws, or run fanfare up"))
	}
	CollectLater(p.Environ)
	log := obs.NewLogger(p.Stderr, cfg.LogLevel, false)
	err = Run(ctx, Options{Config: cfg, Roles: p.Roles, Version: obs.ReadBuild().Version, Log: log, Environ: p.Environ})
	if err != nil {
		return p.fail(ExitFailure, err)
	}
	return ExitOK
}

// about answers --help and --version, the only arguments that a daemon accepts.
func (p Program) about(arg string) int {
	switch arg {
	case "-h", "-help", "--help":
		help := p.Name + " is a daemon of Fanfare on AWS. It takes no arguments but --version, and reads FANFARE_* and the variables of the AWS SDK."
		return p.printed(fmt.Fprintln(p.Stderr, help))
	case "-version", "--version":
		return p.printed(fmt.Fprintf(p.Stdout, "%s %s\n", p.Name, obs.ReadBuild()))
	default:
		return p.fail(ExitUsage, fmt.Errorf("takes no arguments, but got %q: see %s --help", arg, p.Name))
	}
}

// printed returns the exit code after an answer was printed.
func (p Program) printed(_ int, err error) int {
	if err != nil {
		return p.fail(ExitFailure, err)
	}
	return ExitOK
}

func (p Program) fail(code int, err error) int {
	_, _ = fmt.Fprintf(p.Stderr, "%s: %s\n", p.Name, OneLine(err)) // if stderr is gone, only the exit code remains
	return code
}

// OneLine formats an error as one line for a terminal. The text of an error may have several
// lines: one for each joined error, and one for each suggestion of the command line. Some
// parts of errors come from strangers.
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
	return terminal.Cut(terminal.Escape(line), maxLine)
}

// maxLine is the maximum length of the line of an error. All faults of an environment fit into the line.
const maxLine = 16_000
