package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/datadir"
	"fanfare/internal/pair"
)

func (a *app) pairCommand() *cobra.Command {
	c := &cobra.Command{Use: "pair", Short: "Look at a pair of machines, or make its keys"}
	c.AddCommand(a.pairStatusCommand(), a.pairKeysCommand())
	return c
}

func (a *app) pairKeysCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "keys DIR", Short: "Make the certificates with which the two machines of a pair know each other",
		Long: `Makes the new directory DIR with ca.crt, and with a certificate and a key for each machine: one.crt and
one.key, two.crt and two.key. Copy ca.crt and one pair of files to each machine, and name them in
FANFARE_PEER_CA, FANFARE_PEER_CERT and FANFARE_PEER_KEY. The keys are valid for ten years. To replace
them, make new ones and copy them to both machines: each connection reads the files again.`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := pair.MakeKeys(args[0]); err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(struct {
				Dir string `json:"dir"`
			}{args[0]})
		}
		return a.println("made the keys of two machines in %s", args[0])
	}
	return c
}

func (a *app) pairStatusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "status", Short: "Show which machine of a pair this is, and how far the standby is",
		Long: `Asks the admin address of a running fanfare up. A primary that is alone has the only copy of the
newest writes. Only a standby that is paired can be promoted without a loss.`,
		Args: cobra.NoArgs,
	}
	c.Flags().String("admin", "", "admin address of fanfare up (FANFARE_ADMIN_ADDR, default 127.0.0.1:9090)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := a.loadEmbedded(c, map[string]string{"admin": "FANFARE_ADMIN_ADDR"})
		if err != nil {
			return err
		}
		s, err := admin.NewClient(cfg.AdminAddr, &http.Client{Timeout: 10 * time.Second}).Pair(c.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(s)
		}
		return a.println("%s", describe(s))
	}
	return c
}

// describe returns the state of a machine as text.
func describe(s admin.PairStatus) string {
	text := fmt.Sprintf("%s, %s, term %d; the other machine, %s, ", s.Role, s.Mode, s.Term, s.Peer)
	if s.Connected {
		text += "is connected"
	} else {
		text += "is away"
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	if s.SeedBytes > s.SeededBytes {
		text += fmt.Sprintf("; %.0f of %.0f MB are copied", float64(s.SeededBytes)/1e6, float64(s.SeedBytes)/1e6)
	}
	if s.LagBytes > 0 {
		text += fmt.Sprintf("; the standby is %.1f MB (%d bytes) behind", float64(s.LagBytes)/1e6, s.LagBytes)
	}
	if s.AloneMillis > 0 {
		text += fmt.Sprintf("; alone for %s", time.Duration(s.AloneMillis)*time.Millisecond)
	}
	if r := s.Register; r != nil {
		text += fmt.Sprintf("; the register, read %s ago: primary %s of term %d, %s since %s",
			time.Duration(r.AgeMillis)*time.Millisecond, r.Primary, r.Term, r.Mode, r.Since.Format(time.RFC3339))
	}
	return text
}

func (a *app) promoteCommand() *cobra.Command {
	var in admin.Promotion
	var yes, asJSON bool
	c := &cobra.Command{
		Use: "promote", Short: "Make the standby of a pair the primary",
		Long: `Makes the standby the primary of the pair, through the admin address of its process. It waits until
the standby has applied almost all that it has (fanfare pair status shows the rest), and the primary
then hands over.

With --primary-is-gone it takes the place of a primary that was lost or cannot be reached. It waits until
the last promise of the standby is over, FANFARE_LEASE, and with FANFARE_REGISTER until the last promise of
the register is over, at most 5.25 times as long. No answered write is lost, even if the primary still runs
somewhere: such a primary answers nothing without its standby. If the two were not paired, the primary may have answered writes that the standby lacks:
then only --accept-loss promotes it, and these writes are lost. With FANFARE_REGISTER, the register must
answer, and its entry decides whether the two were paired.

It prints the state, and asks, unless --yes is given.`,
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&in.PrimaryIsGone, "primary-is-gone", false, "the primary is lost, or cannot be reached")
	c.Flags().BoolVar(&in.AcceptLoss, "accept-loss", false, "lose the writes that only the primary has")
	c.Flags().String("admin", "", "admin address of the standby (FANFARE_ADMIN_ADDR, default 127.0.0.1:9090)")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := a.loadEmbedded(c, map[string]string{"admin": "FANFARE_ADMIN_ADDR"})
		if err != nil {
			return err
		}
		client := admin.NewClient(cfg.AdminAddr, &http.Client{}) // a promotion first applies the rest of the tail
		s, err := client.Pair(c.Context())
		if err == nil && !yes {
			err = a.confirm(c.InOrStdin(), describe(s)+". Type promote: ", "promote")
		}
		if err == nil {
			s, err = client.Promote(c.Context(), in)
		}
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(s)
		}
		return a.println("this machine is the primary of term %d", s.Term)
	}
	return c
}

func (a *app) unpairCommand() *cobra.Command {
	var gone, yes, asJSON bool
	c := &cobra.Command{
		Use: "unpair", Short: "Let a stopped primary continue without its standby, whose disk is gone",
		Long: `Makes the primary in the data directory alone, so that it answers without its standby. No process may
have the directory open. Run it only if the disk of the standby is gone for good, or if its data
directory was deleted: if that standby could still be promoted, both machines would serve, with
different data. Later any standby gets a new copy of all data. With FANFARE_REGISTER the register gets
the change first, so it must answer, and the old standby can no longer be promoted. A pair that no longer
has FANFARE_REGISTER needs it, too, if the primary was alone: stop the standby first.`,
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&gone, "standby-is-gone", false, "the disk of the standby is gone, or its data directory was deleted")
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR, default fanfare-data)")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := a.loadEmbedded(c, map[string]string{"data-dir": "FANFARE_DATA_DIR"})
		if err != nil {
			return err
		}
		if !gone {
			return wrongUse(errors.New("only the loss of the standby's disk allows this: confirm it with --standby-is-gone"))
		}
		if !yes {
			if err := a.confirm(c.InOrStdin(), "If the standby is promoted later, both machines serve, with different data. Type unpair: ", "unpair"); err != nil {
				return err
			}
		}
		if err := unpair(c.Context(), cfg); err != nil {
			return err
		}
		a.trail(cfg).Note(c.Context(), "unpair", 0, nil, zap.String("data_dir", cfg.DataDir))
		if asJSON {
			return a.printJSON(struct {
				DataDir string `json:"data_dir"`
			}{cfg.DataDir})
		}
		return a.println("%s is alone: start fanfare up with it", cfg.DataDir)
	}
	return c
}

// unpair makes the primary in a data directory alone, and its entry in the register.
func unpair(ctx context.Context, cfg config.Config) (err error) {
	data := cfg.DataDir
	state, err := datadir.Look(data)
	if err != nil {
		return err
	}
	if !state.Exists {
		return fmt.Errorf("there is no data directory %s: give --data-dir", data)
	}
	dir, err := datadir.Open(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	role, err := pair.LoadRole(data)
	if err != nil {
		return err
	}
	if role == nil {
		return fmt.Errorf("data directory %s is in no pair", data)
	}
	if address := cfg.RegisterOfPair(); address != "" {
		cfg.Register = address // FANFARE_PEER may be gone already
	}
	register, err := daemon.OpenRegister(ctx, cfg)
	if err != nil {
		return err
	}
	if register == nil {
		return role.Unpair()
	}
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	if err := pair.Unpair(ctx, role, register); err != nil {
		return fmt.Errorf("FANFARE_REGISTER %s: %w", cfg.RegisterAt(), err)
	}
	return nil
}

// registerTime is the timeout of unpair's calls to the register.
const registerTime = 30 * time.Second
