package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/ops/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var daemons []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check settings, table, queues, permissions, clock and keys, and say how to mend each",
		Long: `Checks all that a start needs, and what no start sees: settings that contradict each
other, the table's keys, index, expiry and backups, its capacity and how much of it the last
day used, the queues' settings and dead-letter queues, each kind of call that the daemons
make, the clock by AWS's replies, and the keys of the token issuer. On the embedded engine it looks at the data directory, also while
fanfare up runs. It changes nothing, and says which permissions it could not try. Run it
with the role of a daemon, and name that daemon, or with yours and --daemon operator, which
tries the calls of verify, reconcile and the like. It exits with 1 if it finds a fault.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringSliceVar(&daemons, "daemon", nil, "daemons whose calls are tried: "+strings.Join(daemonNames(), ", ")+" (all of these), or "+operatorAlone+" alone")
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR)")
	return a.answers(c, func(context.Context, *use) (answer admin.Answer, err error) {
		roles, err := rolesOf(daemons)
		if err != nil {
			return answer, err
		}
		found, err := a.examine(c, roles)
		if err != nil {
			return answer, err
		}
		return findingsAnswer(found)
	})
}

// operatorAlone names the calls of an operator, who is no daemon.
const operatorAlone = "operator"

// rolesOf returns the roles of the named daemons. Without names it returns all roles. An
// operator has no role.
func rolesOf(daemons []string) (daemon.Roles, error) {
	if len(daemons) == 0 {
		return daemon.Roles{API: true, Fanout: true, Likes: true}, nil
	}
	var roles daemon.Roles
	if slices.Equal(daemons, []string{operatorAlone}) {
		return roles, nil
	}
	for _, name := range daemons {
		if name == operatorAlone {
			return roles, wrongUse(errors.New("--daemon: an operator is examined alone: run doctor once more for the daemons"))
		}
		s, ok := called(name)
		if !ok {
			return roles, wrongUse(fmt.Errorf("--daemon: %q is not %s or %s", name, strings.Join(daemonNames(), ", "), operatorAlone))
		}
		roles.API = roles.API || s.roles.API
		roles.Fanout = roles.Fanout || s.roles.Fanout
		roles.Likes = roles.Likes || s.roles.Likes
	}
	return roles, nil
}

// examine returns the findings about the environment, and about everything that the
// readable values of the environment name.
func (a *app) examine(c *cobra.Command, roles daemon.Roles) ([]doctor.Finding, error) {
	role := config.Worker
	if roles.API {
		role = config.API
	}
	cfg, err := a.load(role, c, map[string]string{"data-dir": "FANFARE_DATA_DIR"})
	faults, ok := errors.AsType[*config.Error](err)
	if err != nil && !ok {
		return nil, err
	}
	return doctor.Examine(c.Context(), cfg, faults, roles, time.Now), nil
}

func findingsAnswer(found []doctor.Finding) (admin.Answer, error) {
	count := map[doctor.Level]int{}
	width := 0
	for _, f := range found {
		count[f.Level]++
		width = max(width, len(f.Check))
	}
	faults, warnings := count[doctor.LevelFault], count[doctor.LevelWarning]
	var lines []string
	for _, f := range found {
		line := fmt.Sprintf("%-7s  %-*s  %s", f.Level, width, f.Check, printable(f.Says))
		if f.Mend != "" {
			line += fmt.Sprintf("\n%-7s  %-*s  mend: %s", "", width, "", printable(f.Mend))
		}
		lines = append(lines, line)
	}
	answer := admin.Answer{JSON: struct {
		Findings []doctor.Finding `json:"findings"`
		Faults   int              `json:"faults"`
		Warnings int              `json:"warnings"`
	}{found, faults, warnings}, Text: strings.Join(lines, "\n")}
	if faults > 0 {
		return answer, fmt.Errorf("faults: %d, warnings: %d: mend them and run it again", faults, warnings)
	}
	return answer, nil
}
