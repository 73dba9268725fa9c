package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/ops/doctor"
)

func (a *app) iamCommand() *cobra.Command {
	var duties []string
	var at doctor.Account
	c := &cobra.Command{
		Use: "policy", Short: "Print the IAM policy with exactly the calls that a daemon makes",
		Long: `Prints the policy document for the role of a daemon, as JSON: exactly the calls that the
code makes, on FANFARE_TABLE, its index and the queues of FANFARE_QUEUE_PREFIX. "up" is for
fanfare up with FANFARE_ARCHIVE or FANFARE_REGISTER in a bucket, "setup" for fanfare table create and queues create, "operator" for doctor, dlq, reconcile, explain,
delivery and verify. Name more than one duty for a role that has several. It needs no connection.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringSliceVar(&duties, "daemon", nil, "duties of the role: "+strings.Join(doctor.Duties(), ", "))
	c.Flags().StringVar(&at.Region, "region", "*", "region of the table and the queues")
	c.Flags().StringVar(&at.ID, "account", "*", "account of the table and the queues")
	c.Flags().StringVar(&at.Partition, "partition", "aws", "partition of the account, such as aws-cn")
	a.answers(c, func(context.Context, *use) (answer admin.Answer, err error) {
		for _, f := range []struct{ flag, value, grammar, is string }{
			{"region", at.Region, `^(\*|[a-z]+(-[a-z0-9]+)+)$`, "a region such as eu-central-1, or *"},
			{"account", at.ID, `^(\*|\d{12})$`, "12 digits, or *"},
			{"partition", at.Partition, `^aws(-[a-z]+)*$`, "aws, aws-cn or the like"},
		} {
			if !regexp.MustCompile(f.grammar).MatchString(f.value) {
				return answer, wrongUse(fmt.Errorf("--%s: %q is not %s", f.flag, f.value, f.is))
			}
		}
		cfg, err := a.load(config.Tool, c, nil)
		if err != nil {
			return answer, err
		}
		policy, err := doctor.PolicyOf(cfg, at, duties...)
		if err != nil {
			return answer, wrongUse(fmt.Errorf("--daemon: %w", err))
		}
		document, err := json.MarshalIndent(policy, "", "  ")
		if err != nil {
			return answer, err
		}
		return answer, a.println("%s", document)
	})
	always(c)
	return group("iam", "Print policies for the roles of the daemons", c)
}
