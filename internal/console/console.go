// Package console has the pages that people open in a browser: one page to use a feed, and
// one page to operate a process. All files that the pages load are embedded in the package.
//
// The pages have no rights of their own. The first page calls the public API with its
// user's token, and the second page calls the metrics and dead letters of its own address.
// So package console must never read a feed, a queue or a request's token, name another
// host, or allow a script or a style outside of its files (Content-Security-Policy). A
// user's text becomes a text node (console.js), never markup.
package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"time"

	"fanfare/internal/static"
)

//go:embed *.html assets third_party
var files embed.FS

// policy lets a page load only files of its own host, and run no inline script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Config describes the pages of one address.
type Config struct {
	// People, if not nil, is the page at "/" for the users of a feed.
	People *People
	// Operator is the path of the page for operators, "" for none.
	Operator string
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
	Since               time.Time
	// Alone means that no other process works on the same data.
	Alone bool
}

// People are the settings of the page for users.
type People struct {
	// DevTokens lets everybody sign in as any user. Without DevTokens, people need a token.
	DevTokens bool
	// Suggested are the ids of users that the page suggests.
	Suggested []string
	// LikeWindow is the time in which likes are collected.
	LikeWindow time.Duration
}

// LikesCounted returns the time after which a like is in its count, in milliseconds. The
// time is two windows and half a second.
func (p People) LikesCounted() int64 { return (2*p.LikeWindow + 500*time.Millisecond).Milliseconds() }

// New returns the handler of the pages and of the files below /console/ that they load.
func New(cfg Config) (http.Handler, error) {
	pages, err := template.ParseFS(files, "*.html")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	mux := http.NewServeMux()
	handle := func(at, name string, content []byte) error {
		file, err := serve(name, content)
		if err == nil {
			mux.Handle("GET "+at, file)
		}
		return err
	}
	add := func(at, name string) error {
		var page bytes.Buffer
		if err := pages.ExecuteTemplate(&page, name, cfg); err != nil {
			return fmt.Errorf("console: %w", err)
		}
		return handle(at, name, page.Bytes())
	}
	if cfg.People != nil {
		if err := add("/{$}", "people.html"); err != nil {
			return nil, err
		}
	}
	if at := cfg.Operator; at != "" {
		if at == "/" {
			at = "/{$}"
		}
		if err := add(at, "operator.html"); err != nil {
			return nil, err
		}
	}
	for _, folder := range []string{"assets", "third_party"} {
		entries, err := fs.ReadDir(files, folder)
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		for _, entry := range entries {
			content, err := files.ReadFile(path.Join(folder, entry.Name()))
			if err != nil {
				return nil, fmt.Errorf("console: %w", err)
			}
			if err := handle("/console/"+entry.Name(), entry.Name(), content); err != nil {
				return nil, err
			}
		}
	}
	return mux, nil
}

// serve returns the handler of a file.
func serve(name string, content []byte) (http.Handler, error) {
	kind, known := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript"}[path.Ext(name)]
	if !known {
		kind = "text/plain"
	}
	file, err := static.New(kind+"; charset=utf-8", content)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		file.ServeHTTP(w, r)
	}), nil
}
