package httpapi

import (
	"embed"
	"net/http"

	"fanfare/internal/static"
)

// docsPage shows the OpenAPI document and sends calls. It loads nothing from another host.
//
//go:embed docs
var docsPage embed.FS

// pagePolicy lets the page load files only from its own host, and forbids inline scripts.
const pagePolicy = "default-src 'none'; connect-src 'self'; style-src 'self'; img-src data:; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (a *API) registerDocs() error {
	for _, file := range []struct{ at, name, kind string }{
		{"/openapi.json", "", "application/openapi+json"},
		{"/docs", "page.html", "text/html; charset=utf-8"},
		{"/docs/page.css", "page.css", "text/css; charset=utf-8"},
		{"/docs/page.js", "page.js", "text/javascript; charset=utf-8"},
	} {
		content := a.document
		if file.name != "" {
			var err error
			if content, err = docsPage.ReadFile("docs/" + file.name); err != nil {
				return err
			}
		}
		served, err := static.New(file.kind, content)
		if err != nil {
			return err
		}
		a.mux.HandleFunc("GET "+file.at, func(w http.ResponseWriter, r *http.Request) {
			if file.name != "" {
				w.Header().Set("Content-Security-Policy", pagePolicy)
			}
			limitTime(w, served.Size())
			served.ServeHTTP(w, r)
		})
	}
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
		a.mux.Handle("GET /{$}", http.RedirectHandler("/docs", http.StatusFound))
		return
	}
	for _, pattern := range console.Patterns() {
		a.mux.Handle(pattern, console)
	}
	if operations == nil {
		return
	}
	for _, pattern := range []string{
		"GET /metrics", "GET /admin/dead-letters/{topic}", "POST /admin/dead-letters/{topic}/redrive", "POST /admin/dead-letters/{topic}/drop",
		"GET /admin/explain/{user}", "GET /admin/delivery/{post}",
	} {
		a.mux.Handle(pattern, operations)
	}
}
