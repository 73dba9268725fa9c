// Command fanfare is the newcomer's and the operator's binary: the whole of Fanfare
// in one process (up), and the tools around it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// app is what commands share: the world outside, as it was handed in.
type app struct {
	environ        []string
	stdout, stderr io.Writer
}

// usageError is wrong use that only the command itself can see.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// wrongUse marks err as wrong use.
func wrongUse(err error) error { return &usageError{err} }

func run(args, environ []string, stdout, stderr io.Writer) int {
	ctx, stop := daemon.Signals(context.Background())
	defer stop()
	a := &app{environ, stdout, stderr}
	root, began := a.root()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return daemon.ExitOK
	}
	if help := command.CommandPath() + " --help"; !*began && !strings.Contains(err.Error(), help) {
		err = fmt.Errorf("%w: see %s", err, help) // cobra says what is wrong, not what to do
	}
	// Nothing can be done about a stderr that is gone.
	_, _ = fmt.Fprintf(stderr, "fanfare: %s\n", daemon.OneLine(err))
	_, isConfig := errors.AsType[*config.Error](err)
	_, isUsage := errors.AsType[*usageError](err)
	if isConfig || isUsage || !*began {
		return daemon.ExitUsage
	}
	return daemon.ExitFailure
}

// root returns the command tree. began tells whether a command's own work began: an
// error before is wrong use.
func (a *app) root() (root *cobra.Command, began *bool) {
	root = &cobra.Command{
		Use:   "fanfare",
		Short: "Deliver posts to followers' homes and count likes",
		Long: `Fanfare delivers posts to followers' home timelines and counts likes.

"fanfare up" runs all of it in one process, with nothing else installed. On AWS the
daemons are api, fanout and likeagg; this binary sets up the table and the queues
and looks after dead letters. Settings come from the environment (FANFARE_*).`,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		a.upCommand(), a.tokenCommand(), a.tableCommand(), a.queuesCommand(),
		a.deadLettersCommand(), newReplayCommand(a.environ), a.capacityCommand(),
		a.healthCommand(), a.versionCommand(),
	)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd() // adds it, so that it is watched
	began = new(bool)
	watch(root, began)
	return root, began
}

// helpCommand is cobra's, but for a command that there is not: that is wrong use.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return wrongUse(fmt.Errorf("there is no command %q: see %s --help", strings.Join(args, " "), about.CommandPath()))
			}
			about.InitDefaultHelpFlag() // it is in the help itself
			return about.Help()
		},
	}
}

// watch notes when a command's own work begins.
func watch(c *cobra.Command, began *bool) {
	if work := c.RunE; work != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*began = true
			return work(c, args)
		}
	}
	for _, sub := range c.Commands() {
		watch(sub, began)
	}
}

// group returns a command that only holds others. Without one of them it is wrong use.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrongUse(fmt.Errorf("unknown command %q: see fanfare %s --help", args[0], use))
			}
			return wrongUse(fmt.Errorf("say what to do: see fanfare %s --help", use))
		},
		Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(subs...)
	return c
}

// load reads the configuration; a flag that was given stands in for its variable.
func (a *app) load(role config.Role, c *cobra.Command, flags map[string]string) (config.Config, error) {
	environ := append([]string{}, a.environ...)
	for _, name := range sortedKeys(flags) {
		if flag := c.Flags().Lookup(name); flag != nil && flag.Changed {
			environ = append(environ, flags[name]+"="+flag.Value.String())
		}
	}
	return config.Load(environ, role)
}
