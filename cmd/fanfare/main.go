// Command fanfare is all of Fanfare in one binary: the whole system in one process (up),
// the daemons of a deployment on AWS (api, fanout, likeagg), and the operator's tools. If a
// link with the name of a daemon starts the binary, the binary runs that daemon.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/archive"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/obs"
	"fanfare/internal/pair"
)

func main() {
	os.Exit(run(os.Args, os.Environ(), os.Stdout, os.Stderr))
}

// app has the environment and the output streams that commands share.
type app struct {
	environ        []string
	stdout, stderr io.Writer
}

// usageError is a usage error that cobra does not find.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// wrongUse makes err a usage error.
func wrongUse(err error) error { return &usageError{err} }

// run runs the program with its name and arguments, and returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	ctx, stop := daemon.Signals(admin.WithActor(context.Background(), admin.Actor{Name: operatorName()}))
	defer stop()
	out := &output{Writer: stdout}
	a := &app{environ, out, stderr}
	if s, ok := called(args[0]); ok {
		return a.daemon(ctx, s, s.name, args[1:])
	}
	root, began := a.root()
	root.SetArgs(args[1:])
	command, err := root.ExecuteContextC(ctx)
	if lost := out.fault(); lost != nil && !*began { // a failed write of a help, a version or a completion
		*began, err = true, lost
	}
	if err == nil {
		return daemon.ExitOK
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	if errors.Is(out.fault(), syscall.EPIPE) { // the reader of the output has enough
		return daemon.ExitFailure
	}
	line := strings.Replace(daemon.OneLine(err), "Did you mean this? ", "did you mean ", 1) // cobra's own text, as in group and meantFlag
	if help := command.CommandPath() + " --help"; !*began && !strings.Contains(line, help) {
		line += ": see " + help // cobra names the fault, but no remedy
	}
	_, _ = fmt.Fprintf(stderr, "fanfare: %s\n", line) // without stderr nobody can read the error
	_, isConfig := errors.AsType[*config.Error](err)
	_, isUsage := errors.AsType[*usageError](err)
	if isConfig || isUsage || !*began {
		return daemon.ExitUsage
	}
	if archive.Refused(err) || errors.Is(err, pair.ErrOldCopy) || errors.Is(err, pair.ErrCopied) || errors.Is(err, pair.ErrRewound) {
		return daemon.ExitFenced
	}
	return daemon.ExitFailure
}

// root returns the command tree. began becomes true when the work of a command begins: an
// earlier error is a usage error.
func (a *app) root() (root *cobra.Command, began *bool) {
	root = &cobra.Command{
		Use:   "fanfare",
		Short: "Deliver posts to followers' homes and count likes",
		Long: `Fanfare delivers posts to followers' home timelines and counts likes.

"fanfare up" runs all of it in one process, with nothing else installed. On AWS,
"fanfare api", "fanfare fanout" and "fanfare likeagg" run its daemons; other commands
set up the table and the queues, and handle dead letters. Settings come from the
environment (FANFARE_*).`,
		Version:       obs.ReadBuild().String(),
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetFlagErrorFunc(meantFlag)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddCommand(
		a.upCommand(), a.tokenCommand(), a.tableCommand(), a.queuesCommand(),
		a.deadLettersCommand(), a.deliveryCommand(), a.reconcileCommand(), a.verifyCommand(),
		a.importCommand(), a.exportCommand(), a.forgetCommand(), a.archiveCommand(), a.backupCommand(), a.restoreCommand(), a.pairCommand(), a.unpairCommand(), a.replayCommand(), a.capacityCommand(),
		a.doctorCommand(), a.iamCommand(), a.healthCommand(), a.versionCommand(),
	)
	a.addOperations(root)
	for _, s := range services() {
		root.AddCommand(a.serviceCommand(s))
	}
	root.SetHelpCommand(helpCommand(a.stdout))
	root.InitDefaultHelpCmd() // adds the help command, so that watch sees it
	inGroups(root)
	showExamples(root)
	completeValues(root)
	printVersion(root)
	began = new(bool)
	watch(root, began)
	return root, began
}

// printVersion makes --version print the version of root. Another text than the text of cobra needs a
// template, and the linker then keeps all exported methods of the binary: 10 MB.
func printVersion(root *cobra.Command) {
	version, help := root.Version, root.HelpFunc()
	root.InitDefaultVersionFlag()
	root.Version = "" // cobra then takes --version for a call of the help
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		asked := func(flag string) bool {
			set, err := c.Flags().GetBool(flag)
			return err == nil && set
		}
		if c != root || !asked("version") || asked("help") {
			help(c, args)
			return
		}
		fmt.Fprintln(c.OutOrStdout(), "fanfare", version)
	})
}

// helpCommand returns a command like cobra's help, but help about an unknown command is a usage error.
func helpCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if about, _, err := c.Root().Find(args); err == nil {
				for _, sub := range about.Commands() {
					names = append(names, sub.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return wrongUse(fmt.Errorf("there is no command %q: see %s --help", strings.Join(args, " "), about.CommandPath()))
			}
			about.InitDefaultHelpFlag() // adds the flag --help to the help
			err = about.Help()
			if o, ok := out.(*output); ok && err == nil {
				err = o.fault()
			}
			return err
		},
	}
}

// watch makes c, and each command below c, set began when its work begins.
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

// group returns a command that only contains other commands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: callOfGroup, Args: cobra.ArbitraryArgs}
	c.AddCommand(subs...)
	return c
}

// callOfGroup refuses a call of a group itself.
func callOfGroup(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return wrongUse(fmt.Errorf("name one of its commands: see %s --help", c.CommandPath()))
	}
	c.SuggestionsMinimumDistance = suggested
	meant := ""
	if best := c.SuggestionsFor(args[0]); len(best) > 0 {
		meant = "; did you mean " + best[0]
	}
	return wrongUse(fmt.Errorf("unknown command %q%s: see %s --help", args[0], meant, c.CommandPath()))
}

// suggested is the maximum number of changes between a wrong and a suggested name of a command or a flag.
const suggested = 2

// meantFlag adds the flag that a caller may have meant to the error of an unknown flag.
func meantFlag(c *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if best := config.Nearest(unknown.GetSpecifiedName(), names, suggested); best != "" {
		return fmt.Errorf("%w; did you mean --%s", err, best)
	}
	return err
}

// operatorName returns the user and the machine of this process, in characters that a header may have.
func operatorName() string {
	name := fmt.Sprint("uid ", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

// log returns the log of a command that works on the data without a server.
func (a *app) log(cfg config.Config) *zap.Logger {
	return obs.NewLogger(a.stderr, cfg.LogLevel, isTerminal(a.stderr))
}

// trail returns the trail for the changes that the command makes itself. If a server makes changes for the
// command, the server logs them.
func (a *app) trail(cfg config.Config) admin.Trail {
	return admin.NewTrail(a.log(cfg).Named("operator"))
}

// load reads the configuration. A flag replaces the value of its variable, and a fault of the value names the flag.
func (a *app) load(role config.Role, c *cobra.Command, flags map[string]string) (config.Config, error) {
	environ := append([]string{}, a.environ...)
	var names []string // of variables, then of their flags
	for _, name := range sortedKeys(flags) {
		if flag := c.Flags().Lookup(name); flag != nil && flag.Changed {
			environ = append(environ, flags[name]+"="+flag.Value.String())
			names = append(names, flags[name]+":", "--"+name+":")
		}
	}
	cfg, err := config.Load(environ, role)
	bad, ok := errors.AsType[*config.Error](err)
	if !ok || len(names) == 0 {
		return cfg, err
	}
	of := strings.NewReplacer(names...)
	for i, fault := range bad.Faults {
		bad.Faults[i] = of.Replace(fault)
	}
	if !slices.ContainsFunc(bad.Faults, func(fault string) bool { return !strings.HasPrefix(fault, "--") }) {
		err = wrongUse(errors.New(strings.Join(bad.Faults, "; ")))
	}
	return cfg, err
}
