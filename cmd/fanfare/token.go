package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/auth"
	"fanfare/internal/config"
	"fanfare/internal/datadir"
	"fanfare/internal/id"
)

func (a *app) tokenCommand() *cobra.Command {
	var ttl time.Duration
	var act, del bool
	c := &cobra.Command{
		Use:   "token USER",
		Short: "Print a dev token for a user",
		Long: `Prints a dev token. It is signed with FANFARE_DEV_SECRET or, if that is not set, with the
secret in the data directory of fanfare up.`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().String("data-dir", "", "data directory of fanfare up (FANFARE_DATA_DIR, default fanfare-data)")
	c.Flags().DurationVar(&ttl, "ttl", auth.DefaultTokenTTL, "lifetime of the token, at most 720h")
	c.Flags().BoolVar(&act, "act", false, "let the token act for the user in the header Fanfare-User, as a service's does")
	c.Flags().BoolVar(&del, "delete", false, "with --act, let it delete that user, too")
	return a.answers(c, func(_ context.Context, u *use) (answer admin.Answer, err error) {
		user := u.args[0]
		if act && user == "" {
			return answer, wrongUse(errors.New("the name of a service is empty"))
		}
		if del && !act {
			return answer, wrongUse(errors.New("--delete needs --act: a user deletes itself with any token"))
		}
		if !act && !id.ValidUser(user) { // the subject of a service may be an invalid user id
			return answer, wrongUse(fmt.Errorf("%q is not a user id: use %s", user, id.UserGrammar))
		}
		if ttl < time.Second || ttl > auth.MaxTokenTTL {
			return answer, wrongUse(fmt.Errorf("--ttl: a token is valid for 1s to 720h, not %s", ttl))
		}
		cfg, err := a.load(config.Tool, c, map[string]string{"data-dir": "FANFARE_DATA_DIR"})
		if err != nil {
			return answer, err
		}
		secret := []byte(cfg.DevSecret)
		if len(secret) == 0 {
			if secret, err = datadir.ReadSecret(cfg.DataDir); err != nil {
				return answer, err
			}
		}
		dev, err := auth.NewDev(secret, time.Now)
		if err != nil {
			return answer, err
		}
		var scopes []string
		if act {
			scopes = append(scopes, auth.ActScope)
		}
		if del {
			scopes = append(scopes, auth.DeleteScope)
		}
		token, expires, err := dev.Issue(user, ttl, scopes...)
		if err != nil {
			return answer, err
		}
		made := struct {
			Token     string    `json:"token"`
			ExpiresAt time.Time `json:"expires_at"`
		}{token, expires}
		return admin.Answer{JSON: made, Text: token}, nil
	})
}
