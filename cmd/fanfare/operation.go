package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
)

// use is one use of a command.
type use struct {
	*app

	command   *cobra.Command
	args      []string
	json, yes bool
}

// sure asks a question, unless --yes is given, and returns an error unless the answer is want.
func (u *use) sure(question, want string) error {
	if u.yes {
		return nil
	}
	return u.confirm(u.command.InOrStdin(), question, want)
}

// work is the work of a command. Its answer is printed even if the work also returns an error. A work that prints
// for itself returns the zero answer.
type work func(ctx context.Context, u *use) (admin.Answer, error)

// answers makes do the work of c, with the flag --json.
func (a *app) answers(c *cobra.Command, do work) *cobra.Command {
	u := &use{app: a, command: c}
	c.Flags().BoolVar(&u.json, "json", false, "print one JSON object")
	return u.does(do)
}

// asks makes do the work of c, which asks the operator, with the flags --json and --yes.
func (a *app) asks(c *cobra.Command, do work) *cobra.Command {
	u := &use{app: a, command: c}
	c.Flags().BoolVar(&u.json, "json", false, "print one JSON object")
	c.Flags().BoolVar(&u.yes, "yes", false, "do not ask")
	return u.does(do)
}

func (u *use) does(do work) *cobra.Command {
	u.command.RunE = func(c *cobra.Command, args []string) error {
		u.args = args
		answer, err := do(c.Context(), u)
		if lost := u.print(answer, u.json); lost != nil {
			return lost
		}
		return err
	}
	return u.command
}

// always names that a command prints JSON without the flag, too.
func always(c *cobra.Command) {
	c.Flags().Lookup("json").Usage = "print one JSON object (it always does)"
}

// print prints an answer: as JSON, as a table or as a sentence.
func (a *app) print(answer admin.Answer, asJSON bool) error {
	switch {
	case answer.JSON == nil:
		return nil
	case asJSON:
		return a.printJSON(answer.JSON)
	case answer.Rows != nil:
		return a.printTable(answer.Rows)
	case answer.Text == "":
		return nil
	}
	return a.println("%s", answer.Text)
}

// opener opens the parts for operations of a configuration on AWS. The caller must call end.
type opener func(ctx context.Context, cfg config.Config) (d admin.Domain, end func() error, err error)

// operates returns the work that calls do with a process that does operations: this process with FANFARE_ENGINE=aws and
// an opener, otherwise the process behind the admin address. c gets the flag --admin.
func (a *app) operates(c *cobra.Command, open opener, do func(ctx context.Context, u *use, at admin.Process) (admin.Answer, error)) work {
	c.Flags().String("admin", "", "admin address of fanfare up (FANFARE_ADMIN_ADDR, default 127.0.0.1:9090)")
	return func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		cfg, err := a.load(config.Tool, c, map[string]string{"admin": "FANFARE_ADMIN_ADDR"})
		if err != nil {
			return answer, err
		}
		if cfg.Engine != config.EngineAWS || open == nil {
			return do(ctx, u, admin.NewClient(cfg.AdminAddr, &http.Client{Timeout: time.Minute}))
		}
		domain, end, err := open(ctx, cfg)
		if err != nil {
			return answer, err
		}
		domain.Trail = a.trail(cfg)
		answer, err = do(ctx, u, domain)
		return answer, errors.Join(err, end())
	}
}

// openNothing is the opener of an operation that exists only on the embedded engine.
func openNothing(context.Context, config.Config) (d admin.Domain, end func() error, err error) {
	return d, nil, errEmbedded()
}

// addOperations adds the commands of the operations to root, or to a group of root.
func (a *app) addOperations(root *cobra.Command) {
	for _, operation := range admin.Operations() {
		call := operation.Call()
		if call.Use == "" { // a command of this package calls the operation more than once, or does more
			continue
		}
		parent, words, _ := root.Find(strings.Fields(call.Use)) // the command itself does not exist yet
		parent.AddCommand(a.operation(call, strings.Join(words, " ")))
	}
}

// operation returns the command of an operation.
func (a *app) operation(call admin.Call, usage string) *cobra.Command {
	c := &cobra.Command{Use: usage, Short: call.Short, Long: call.Long}
	var arguments []admin.Param
	for _, p := range call.Params {
		name := strings.ReplaceAll(p.Name, "_", "-")
		switch at, isBool := p.At.(*bool); {
		case p.Help == "":
			arguments = append(arguments, p)
		case isBool:
			c.Flags().BoolVar(at, name, false, p.Help)
		default:
			c.Flags().Func(name, p.Help, p.Set)
		}
	}
	c.Args = cobra.RangeArgs(len(arguments)-strings.Count(usage, "["), len(arguments))
	if len(arguments) == 0 {
		c.Args = cobra.NoArgs
	}
	open := daemon.OpenOperations
	switch {
	case call.Embedded:
		open = openNothing
	case call.AtAddress:
		open = nil
	}
	do := a.operates(c, open, func(ctx context.Context, u *use, at admin.Process) (answer admin.Answer, err error) {
		for i, arg := range u.args {
			if arg == "" {
				return answer, wrongUse(fmt.Errorf("the %s is empty", arguments[i].Name))
			}
			if err := arguments[i].Set(arg); err != nil {
				return answer, wrongUse(err)
			}
		}
		if err := call.Check(); err != nil {
			return answer, wrongUse(err)
		}
		if call.Ask != nil && !u.yes {
			question, want, err := call.Ask(ctx, at)
			if err == nil {
				err = u.sure(question, want)
			}
			if err != nil {
				return answer, err
			}
		}
		return call.Do(ctx, at)
	})
	if call.Ask != nil {
		return a.asks(c, do)
	}
	return a.answers(c, do)
}
