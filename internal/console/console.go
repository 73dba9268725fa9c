// Package console has the pages that people open in a browser: the pages of a feed, a page to
// operate a process, and a page for moderators. All files that the pages load are embedded in the package.
//
// The pages have no rights of their own. The pages of a feed call the public API with their
// user's token or session, and the other pages call the operations of their own address. So package
// console must never read a feed, a queue or a request's token, name another host than its configuration does, or allow a
// script or a style outside of its files (Content-Security-Policy). A user's text becomes a
// text node (draw.js), never markup. All pages of a feed are one document, whose scripts read the
// page and its ids in the address.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"fanfare/internal/static"
)

//go:embed assets pictures third_party
var files embed.FS

// Charted returns the names of the metrics that the charts of the page for operators show.
func Charted() []string {
	script, _ := files.ReadFile("assets/operator.js") // the file is in the program
	_, charts, _ := strings.Cut(string(script), "\nconst charts = {")
	charts, _, _ = strings.Cut(charts, "\n};")
	return regexp.MustCompile(`fanfare_\w+`).FindAllString(charts, -1)
}

// policy lets a page load only files of its own host and pictures of the hosts in images, and run no inline script.
func policy(images []string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		strings.Join(append([]string{"img-src 'self' data:"}, images...), " ") +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// Config describes the pages of one address.
type Config struct {
	// Prefix is the path below which the pages are, such as /feed. "" is the root.
	Prefix string
	// Images are the origins of pictures that the pages show, in addition to their own origin.
	Images []string
	// People, if not nil, are the settings of the pages for the users of a feed.
	People *People
	// Operator is the path of the page for operators, "" for none.
	Operator string
	// Standby, if not nil, makes the only page of the address the page of a standby. With Operator it shows the state of the pair.
	Standby *Standby
	// Topics are the topics whose dead letters the operators' page lists.
	Topics []string
	// Process is the process whose metrics the operators' page shows.
	Process Process
}

// Process describes a process to its operators.
type Process struct {
	// Name has the duties of the process. Host is the name of the process's machine, "" if
	// the name is unknown.
	Name, Host, Version string
	// Roles are the daemons whose work the process does.
	Roles []string
	Since time.Time
	// Settings are the settings of the process, without secrets.
	Settings []Setting
	// Alone means that no other process works on the same data.
	Alone bool
}

// Standby describes the standby of a pair.
type Standby struct {
	// Peer is the address of the other machine.
	Peer string
}

// moderatorPath is the path of the page for moderators.
const moderatorPath = "/moderate"

// moderated reports whether an address has the page for moderators: the admin address of a process with the API. Its actions
// cannot be undone, so the address of the API does not have it.
func (c Config) moderated() bool { return c.Operator == "/" && c.Process.Has("api") }

// Has reports whether the process does the work of a daemon. The operators' page leaves out the
// numbers of work that the process never does.
func (p Process) Has(role string) bool { return slices.Contains(p.Roles, role) }

// Setting is a setting of a process.
type Setting struct{ Name, Value string }

// People are the settings of the pages for users.
type People struct {
	// DevTokens lets everybody sign in as any user. Without DevTokens, people need a token, or with Site a session of the
	// site that serves the pages.
	DevTokens, Site bool
	// Suggested are the ids of users that the page suggests.
	Suggested []string
	// LikeWindow is the time in which likes are collected.
	LikeWindow time.Duration
	// Reactions are the kinds of reactions in addition to likes.
	Reactions []string
	// Notifications, LikesByUser mean that the API has these lists.
	Notifications, LikesByUser bool
}

// LikesCounted returns the time after which a like is in its count, in milliseconds. The
// time is two windows and half a second.
func (p People) LikesCounted() int64 { return (2*p.LikeWindow + 500*time.Millisecond).Milliseconds() }

// addresses returns the patterns of the pages for the users of a feed. feed.js has the page of each
// pattern. People may keep an address, so an address stays.
func addresses() []string {
	return []string{
		"/{$}", "/profile", "/notifications", "/bookmarks", "/mutes", "/blocks",
		"/users/{id}", "/users/{id}/comments", "/users/{id}/likes", "/users/{id}/reactions",
		"/users/{id}/followers", "/users/{id}/following", "/users/{id}/friends",
		"/posts/{id}", "/posts/{id}/likes", "/posts/{id}/reactions",
	}
}

// Console is the handler of the pages, and of the files below /console/ that the pages load.
type Console struct {
	mux      *http.ServeMux
	policy   string
	patterns []string
}

// Patterns returns the patterns of the requests that c answers, for a mux with further handlers.
func (c *Console) Patterns() []string { return c.patterns }

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

// handle adds a file at all its addresses.
func (c *Console) handle(name string, content []byte, addresses ...string) error {
	file, err := c.serve(name, content)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		c.mux.Handle("GET "+address, file)
		c.patterns = append(c.patterns, "GET "+address)
	}
	return nil
}

// New returns the console of one address.
func New(cfg Config) (*Console, error) {
	c := &Console{mux: http.NewServeMux(), policy: policy(cfg.Images)}
	add := func(name string, content templ.Component, addresses ...string) error {
		var page bytes.Buffer
		if err := content.Render(context.Background(), &page); err != nil {
			return fmt.Errorf("console: %w", err)
		}
		return c.handle(name, static.Below(cfg.Prefix, page.Bytes()), addresses...)
	}
	if cfg.Standby != nil {
		return c, errors.Join(c.addStandby(cfg), c.addFiles())
	}
	if cfg.People != nil {
		if err := add("people.html", peoplePage(cfg), addresses()...); err != nil {
			return nil, err
		}
	}
	if at := cfg.Operator; at != "" {
		if at == "/" {
			at = "/{$}"
		}
		if err := add("operator.html", operatorPage(cfg), at); err != nil {
			return nil, err
		}
	}
	if cfg.moderated() {
		if err := add("moderator.html", moderatorPage(cfg), moderatorPath); err != nil {
			return nil, err
		}
	}
	return c, c.addFiles()
}

// addStandby adds the page of a standby, at every path. Its status shows a program that the machine does not serve.
func (c *Console) addStandby(cfg Config) error {
	var page bytes.Buffer
	if err := standbyPage(cfg).Render(context.Background(), &page); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	content := static.Below(cfg.Prefix, page.Bytes())
	c.mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		c.protect(w.Header())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(content) // a failed write means that the reader is gone
	})
	return nil
}

// addFiles adds the files that pages load, and the pictures of the demo.
func (c *Console) addFiles() error {
	for folder, at := range map[string]string{"assets": "", "third_party": "", "pictures": "pictures/"} {
		entries, err := fs.ReadDir(files, folder)
		if err != nil {
			return fmt.Errorf("console: %w", err)
		}
		for _, entry := range entries {
			content, err := files.ReadFile(path.Join(folder, entry.Name()))
			if err != nil {
				return fmt.Errorf("console: %w", err)
			}
			if err := c.handle(entry.Name(), content, "/console/"+at+entry.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve returns the handler of a file.
func (c *Console) serve(name string, content []byte) (http.Handler, error) {
	kind, known := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}[path.Ext(name)]
	if !known {
		kind = "text/plain"
	}
	file, err := static.New(kind+"; charset=utf-8", content)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.protect(w.Header())
		file.ServeHTTP(w, r)
	}), nil
}

// protect sets the headers of every file.
func (c *Console) protect(h http.Header) {
	h.Set("Content-Security-Policy", c.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
