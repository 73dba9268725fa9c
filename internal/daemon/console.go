package daemon

import (
	"net/http"
	"os"
	"strings"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/console"
	"fanfare/internal/httpapi"
	"fanfare/internal/queue"
)

// console returns the console of the API's address, and the handler for the calls of the
// operators' page. A missing part is nil. The operations need no token. So they exist only where
// dev tokens already let everybody act as any user: on an address that only this machine reaches. Nobody
// knows who reaches a process without an address of its own.
func (p *process) console() (pages httpapi.Pages, operate http.Handler, err error) {
	if !p.cfg.Console {
		return nil, nil, nil
	}
	cfg := console.Config{
		Prefix: p.opt.Prefix,
		People: &console.People{
			DevTokens: p.authn.tokens != nil, Site: p.opt.Site != nil, Suggested: p.opt.Suggested, LikeWindow: p.cfg.LikeWindow, Reactions: p.cfg.Reactions,
			Notifications: bool(p.cfg.Notifications), LikesByUser: bool(p.cfg.LikesByUser),
		},
		Topics: queue.Topics(), Process: p.described(), Images: p.cfg.ConsoleImages,
	}
	if p.cfg.Engine == config.EngineEmbedded && p.authn.tokens != nil && p.cfg.DevAuthPublic == "" && p.cfg.HTTPAddr != "" {
		cfg.Operator, operate = httpapi.OperatorPath, admin.NotFromOtherSites(p.operator)
	}
	if pages, err = console.New(cfg); err != nil {
		return nil, nil, err
	}
	return pages, operate, nil
}

// standbyPages returns the page of a standby for the address of the API, which is nil without the console, and for the admin address.
func (p *process) standbyPages() (strangers http.Handler, operators *console.Console, err error) {
	at := &console.Standby{Peer: p.cfg.Peer}
	if p.cfg.Console {
		if strangers, err = console.New(console.Config{Prefix: p.opt.Prefix, Standby: at}); err != nil {
			return nil, nil, err
		}
	}
	operators, err = console.New(console.Config{Standby: at, Process: p.described(), Operator: "/"})
	return strangers, operators, err
}

// about names p for its status.
func (p *process) about() admin.About {
	return admin.About{Version: p.opt.Version, Roles: p.opt.Roles.Names(), Since: p.opt.Now()}
}

// described describes p for the operators of p.
func (p *process) described() console.Process {
	host, _ := os.Hostname() // the page works without the name of the host
	var settings []console.Setting
	for _, s := range p.cfg.Settings() {
		settings = append(settings, console.Setting(s))
	}
	return console.Process{
		Name: "fanfare " + strings.Join(p.opt.Roles.Names(), ", "), Host: host, Version: p.opt.Version, Roles: p.opt.Roles.Names(), Since: p.opt.Now(),
		Settings: settings, Alone: p.cfg.Engine == config.EngineEmbedded,
	}
}
