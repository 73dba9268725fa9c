package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
)

func (a *app) iamCommand() *cobra.Command {
	var duties []string
	var at daemon.Account
	c := &cobra.Command{
		Use: "policy", Short: "Print the IAM policy with exactly the calls that a daemon makes",
		Long: `Prints the policy document for the role of a daemon, as JSON: exactly the calls that the
code makes, on FANFARE_TABLE, its index and the queues of FANFARE_QUEUE_PREFIX. "setup" is
for fanfare table create and queues create, "operator" for doctor, dlq, reconcile, explain
and delivery. Name more than one duty for a role that has several. It needs no connection.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringSliceVar(&duties, "daemon", nil, "duties of the role: "+strings.Join(daemon.Duties(), ", "))
	c.Flags().StringVar(&at.Region, "region", "*", "region of the table and the queues")
	c.Flags().StringVar(&at.ID, "account", "*", "account of the table and the queues")
	c.Flags().StringVar(&at.Partition, "partition", "aws", "partition of the account, such as aws-cn")
	c.Flags().Bool("json", false, "print one JSON object (it always does)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := a.load(config.Tool, c, nil)
		if err != nil {
			return err
		}
		policy, err := daemon.PolicyOf(cfg, at, duties...)
		if err != nil {
			return wrongUse(fmt.Errorf("--daemon: %w", err))
		}
		document, err := json.MarshalIndent(policy, "", "  ")
		if err != nil {
			return err
		}
		return a.println("%s", document)
	}
	return group("iam", "Print policies for the roles of the daemons", c)
}
