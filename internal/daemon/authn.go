package daemon

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/auth"
	"fanfare/internal/config"
	"fanfare/internal/httpapi"
)

// authn holds the parts that check tokens for the API. It is empty if a site identifies the callers.
type authn struct {
	verifier auth.Verifier
	// tokens, if not nil, issues dev tokens.
	tokens httpapi.TokenIssuer
	checks []admin.Check
	// run, if not nil, keeps the keys fresh.
	run func(context.Context) error
	// remembered returns the memory for verified tokens, in bytes. remembered is nil in a
	// process without an API.
	remembered func() int64
	// fetches counts the fetches of the issuer's keys. fetches is nil in a process without an issuer.
	fetches func() (done, failed int64)
}

func (p *process) newAuthn() (authn, error) {
	switch {
	case !p.opt.Roles.API || p.opt.Site != nil:
		return authn{}, nil
	case p.cfg.Auth == config.AuthDev:
		dev, err := auth.NewDev(p.eng.devSecret, p.opt.Now)
		if err != nil {
			return authn{}, err
		}
		return authn{verifier: dev, tokens: dev, remembered: dev.RememberedBytes}, nil
	default:
		keys := NewKeySet(p.cfg, p.opt.Now, p.work)
		verifier := auth.NewJWT(auth.Rules{
			Issuer: p.cfg.JWTIssuer, Audiences: p.cfg.JWTAudience, UserClaim: p.cfg.JWTUserClaim, Scopes: p.scopes(),
		}, keys, p.opt.Now)
		return authn{
			verifier: verifier, remembered: verifier.RememberedBytes, fetches: keys.Fetches,
			checks: []admin.Check{{Name: "keys", Ask: keys.Ready, Needed: true}},
			run:    keys.Run,
		}, nil
	}
}

// scopes returns the scopes of services. Dev tokens have the default scopes.
func (p *process) scopes() auth.Scopes {
	if p.cfg.Auth == config.AuthDev {
		return auth.Scopes{}
	}
	return auth.Scopes{Act: p.cfg.ServiceScope, Delete: p.cfg.DeleteScope()}
}

// NewKeySet returns the keys of the issuer of a configuration.
func NewKeySet(cfg config.Config, now func() time.Time, log *zap.Logger) *auth.KeySet {
	client := &http.Client{Timeout: keyTimeout}
	if cfg.JWKSURL == "" {
		return auth.NewDiscoveredKeySet(cfg.JWTIssuer, client, now, log.Named("keys"))
	}
	return auth.NewKeySet(cfg.JWKSURL, client, now, log.Named("keys"))
}
