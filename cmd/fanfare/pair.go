package main

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	return group("pair", "Look at a pair of machines, make its keys, move its register, or begin it again", a.pairKeysCommand(), a.pairBeginCommand())
}

func (a *app) pairKeysCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "keys DIR", Short: "Make the certificates with which the two machines of a pair know each other",
		Long: `Makes the new directory DIR with ca.crt, and with a certificate and a key for each machine: one.crt and
one.key, two.crt and two.key. Copy ca.crt and one pair of files to each machine, and name them in
FANFARE_PEER_CA, FANFARE_PEER_CERT and FANFARE_PEER_KEY. The keys are valid for ten years. To replace
them, make new ones and copy them to both machines: each connection reads the files again.`,
		Args: cobra.ExactArgs(1),
	}
	return a.answers(c, func(_ context.Context, u *use) (answer admin.Answer, err error) {
		if err := pair.MakeKeys(u.args[0]); err != nil {
			return answer, err
		}
		made := struct {
			Dir string `json:"dir"`
		}{u.args[0]}
		return admin.Answer{JSON: made, Text: "made the keys of two machines in " + made.Dir}, nil
	})
}

func (a *app) unpairCommand() *cobra.Command {
	var gone bool
	c := &cobra.Command{
		Use: "unpair", Short: "End a pair: the stopped primary continues as one machine",
		Long: `Makes the primary in the data directory alone, first in the register of FANFARE_REGISTER, and then in the
directory. No process may have the directory open. From then on its standby cannot become the primary,
and fanfare up starts with or without the settings of the pair. Later any standby gets a new copy of all
data. If the register has lost its entry, the disk of the standby must be gone, or its data directory
deleted: a standby that has become the primary would serve, too, with different data.`,
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&gone, "standby-is-gone", false, "the disk of the standby is gone, or its data directory was deleted")
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR, default fanfare-data)")
	return a.asks(c, func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		cfg, err := a.loadEmbedded(c, map[string]string{"data-dir": "FANFARE_DATA_DIR"})
		if err != nil {
			return answer, err
		}
		if !gone {
			return answer, wrongUse(errors.New("only the loss of the standby's disk allows this: confirm it with --standby-is-gone"))
		}
		if err := u.sure("If the standby is promoted later, both machines serve, with different data. Type unpair: ", "unpair"); err != nil {
			return answer, err
		}
		if err := unpair(ctx, cfg); err != nil {
			return answer, err
		}
		a.trail(cfg).Note(ctx, "unpair", 0, nil, zap.String("data_dir", cfg.DataDir))
		return inDirectory(cfg.DataDir, "is alone: start fanfare up with it"), nil
	})
}

func (a *app) pairBeginCommand() *cobra.Command {
	var restored bool
	c := &cobra.Command{
		Use: "begin", Short: "Give the register of a lost pair to a restored data directory",
		Long: `Makes the restored data directory the primary of a new pair, in the register of FANFARE_REGISTER and in
the directory. No process may have the directory open. Run it after fanfare restore, if both machines of
the former pair are gone: from then on they are refused, should they come back. Then start fanfare up.`,
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&restored, "after-restore", false, "both machines of the former pair are gone, and the data directory was restored")
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR, default fanfare-data)")
	return a.asks(c, func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		cfg, err := a.loadEmbedded(c, map[string]string{"data-dir": "FANFARE_DATA_DIR"})
		if err != nil {
			return answer, err
		}
		if !restored {
			return answer, wrongUse(errors.New("only the loss of both machines allows this: confirm it with --after-restore"))
		}
		if err := u.sure("The machines of the former pair are refused from now on. Type begin: ", "begin"); err != nil {
			return answer, err
		}
		err = inRegister(ctx, cfg, func(ctx context.Context, register pair.Register) error {
			return pair.AfterRestore(ctx, cfg.DataDir, register)
		})
		if err != nil {
			return answer, err
		}
		a.trail(cfg).Note(ctx, "pair begin", 0, nil, zap.String("data_dir", cfg.DataDir))
		return inDirectory(cfg.DataDir, "has the register: start fanfare up with it"), nil
	})
}

// inDirectory returns the answer of a command that has changed a data directory.
func inDirectory(dir, text string) admin.Answer {
	changed := struct {
		DataDir string `json:"data_dir"`
	}{dir}
	return admin.Answer{JSON: changed, Text: dir + " " + text}
}

// inRegister changes the register and the role of a data directory that no process has open.
func inRegister(ctx context.Context, cfg config.Config, change func(context.Context, pair.Register) error) (err error) {
	state, err := datadir.Look(cfg.DataDir)
	if err != nil {
		return err
	}
	if !state.Exists {
		return fmt.Errorf("there is no data directory %s: give --data-dir", cfg.DataDir)
	}
	if cfg.Register == "" {
		return errors.New("FANFARE_REGISTER is missing: this command changes the register of the pair, so set it as fanfare up has it")
	}
	dir, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	role, err := pair.LoadRole(cfg.DataDir)
	if err != nil {
		return err
	}
	address := role.RegisterFor(cfg.Register)
	register, err := daemon.OpenRegister(ctx, address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	if err := change(ctx, register); err != nil {
		return fmt.Errorf("FANFARE_REGISTER %s: %w", address, err)
	}
	return nil
}

// unpair makes the primary in a data directory alone, and its entry in the register.
func unpair(ctx context.Context, cfg config.Config) error {
	return inRegister(ctx, cfg, func(ctx context.Context, register pair.Register) error {
		role, err := pair.LoadRole(cfg.DataDir)
		if err != nil {
			return err
		}
		if role == nil {
			return fmt.Errorf("data directory %s is in no pair", cfg.DataDir)
		}
		if err := refuseCopy(ctx, cfg, role); err != nil {
			return err
		}
		return pair.Unpair(ctx, role, register)
	})
}

// refuseCopy returns an error if the other machine runs with a copy of this data directory: then its standby is not gone, and both would answer.
// A machine that does not answer may be gone.
func refuseCopy(ctx context.Context, cfg config.Config, role *pair.Role) error {
	if cfg.Peer == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	keys := pair.Keys{Cert: cfg.PeerCert, Key: cfg.PeerKey, CA: cfg.PeerCA}
	dial := func(ctx context.Context) (net.Conn, error) { return keys.Dial(ctx, cfg.Peer) }
	peer, err := pair.Ask(ctx, dial, pair.AskingHello(role, 0, ""))
	if err != nil {
		return nil // the machine may be gone
	}
	return role.CopyOf(peer)
}

// askTime is the timeout of unpair's question to the other machine.
const askTime = 2 * time.Second

// registerTime is the timeout of a command's calls to the register.
const registerTime = 30 * time.Second
