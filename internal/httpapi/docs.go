package httpapi

import (
	"bytes"
	"context"
	"embed"
	"net/http"
	"path"

	"fanfare/internal/static"
)

// docsFiles are the files that the docs page loads. The page shows the OpenAPI document and sends
// calls. It loads nothing from another host.
//
//go:embed docs
var docsFiles embed.FS

// pagePolicy lets the page load files only from its own host, and forbids inline scripts.
const pagePolicy = "default-src 'none'; connect-src 'self'; style-src 'self'; img-src data:; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// links are the pages of the console to which the header of the docs page leads. Site means that calls have the session of a
// site in place of a token.
type links struct{ Console, Operations, Site bool }

func (a *API) registerDocs(to links) error {
	var html bytes.Buffer
	if err := docsHTML(to).Render(context.Background(), &html); err != nil {
		return err
	}
	if err := a.registerFile("/openapi.json", "application/openapi+json", "", a.document); err != nil {
		return err
	}
	if err := a.registerFile("/docs", "text/html; charset=utf-8", pagePolicy, static.Below(a.prefix, html.Bytes())); err != nil {
		return err
	}
	entries, err := docsFiles.ReadDir("docs")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		kind, ok := map[string]string{".css": "text/css", ".js": "text/javascript"}[path.Ext(entry.Name())]
		if !ok {
			continue
		}
		content, err := docsFiles.ReadFile("docs/" + entry.Name())
		if err != nil {
			return err
		}
		if err := a.registerFile("/docs/"+entry.Name(), kind+"; charset=utf-8", pagePolicy, content); err != nil {
			return err
		}
	}
	return nil
}

// registerFile serves a file. policy is its Content-Security-Policy, "" for none.
func (a *API) registerFile(at, kind, policy string, content []byte) error {
	served, err := static.New(kind, content)
	if err != nil {
		return err
	}
	a.mux.HandleFunc("GET "+at, func(w http.ResponseWriter, r *http.Request) {
		if policy != "" {
			w.Header().Set("Content-Security-Policy", policy)
		}
		limitTime(w, served.Size())
		served.ServeHTTP(w, r)
	})
	return nil
}

// OperatorPath is the path of the console's page for operators.
const OperatorPath = "/operator"

// Pages answers the requests of its patterns.
type Pages interface {
	http.Handler
	Patterns() []string
}

// registerConsole adds the console. Without a console, the root redirects to the docs.
func (a *API) registerConsole(console Pages, operations http.Handler) {
	if console == nil {
		a.mux.Handle("GET /{$}", http.RedirectHandler(a.prefix+"/docs", http.StatusFound))
		return
	}
	for _, pattern := range console.Patterns() {
		a.mux.Handle(pattern, console)
	}
	if operations == nil {
		return
	}
	for _, pattern := range []string{
		"GET /metrics", "GET /admin/dead-letters/{topic}", "POST /admin/dead-letters/{topic}/redrive", // a drop cannot be undone: only the admin address has it
		"GET /admin/explain/{user}", "GET /admin/delivery/{post}", "GET /admin/posts/{post}", "GET /admin/pair", "GET /admin/history",
	} {
		a.mux.Handle(pattern, operations)
	}
}
