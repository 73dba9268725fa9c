package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fanfare/internal/ops/capacity"
	"fanfare/internal/ops/doctor"
	"fanfare/internal/queue"
)

// completeValues makes shells complete the values of arguments and flags. No other value is a name of a file.
func completeValues(root *cobra.Command) {
	dirs := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	arguments := map[string]cobra.CompletionFunc{
		"backup": dirs, "restore": dirs, "pair keys": dirs, "import": anyFile,
		"dlq ls": first(queue.Topics()), "dlq show": first(queue.Topics()), "dlq redrive": first(queue.Topics()), "dlq drop": first(queue.Topics()),
	}
	flags := map[string]cobra.CompletionFunc{
		"data-dir": dirs, "graph": anyFile, "journal": anyFile, "check": anyFile, "prices": anyFile,
		"billing": oneOf(capacity.OnDemand, capacity.Provisioned), "network": oneOf(capacity.Addresses, capacity.NAT), "iam policy --daemon": oneOf(doctor.Duties()...), "doctor --daemon": oneOf(append(daemonNames(), operatorAlone)...),
	}
	for c := range below(root) {
		name := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
		if !c.HasSubCommands() && c.ValidArgsFunction == nil {
			c.ValidArgsFunction = completion(arguments, name)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			key := name + " --" + f.Name
			if _, own := flags[key]; !own {
				key = f.Name
			}
			_ = c.RegisterFlagCompletionFunc(f.Name, completion(flags, key)) // only a flag that does not exist, or has a function, fails
		})
	}
}

// completion returns the completion of a name. A name without a completion completes nothing.
func completion(of map[string]cobra.CompletionFunc, name string) cobra.CompletionFunc {
	if found, ok := of[name]; ok {
		return found
	}
	return cobra.NoFileCompletions
}

func anyFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func oneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// first completes the first argument.
func first(values []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return cobra.NoFileCompletions(c, args, toComplete)
		}
		return oneOf(values...)(c, args, toComplete)
	}
}
