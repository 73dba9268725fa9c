package httpapi

import (
	"embed"
	"net/http"
)

// docsPage shows the OpenAPI document and sends calls. It loads nothing from another host.
//
//go:embed docs
var docsPage embed.FS

func (a *API) registerDocs() {
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Header().Set("Cache-Control", "no-cache")
		send(w, http.StatusOK, a.document)
	})
	for path, file := range map[string]struct{ name, kind string }{
		"/docs":          {"page.html", "text/html"},
		"/docs/page.css": {"page.css", "text/css"},
		"/docs/page.js":  {"page.js", "text/javascript"},
	} {
		a.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			content, err := docsPage.ReadFile("docs/" + file.name)
			if err != nil {
				internal().write(w) // the file is in the binary, as a test shows
				return
			}
			w.Header().Set("Content-Type", file.kind+"; charset=utf-8")
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("Content-Security-Policy",
				"default-src 'none'; connect-src 'self'; style-src 'self'; img-src data:; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
			send(w, http.StatusOK, content)
		})
	}
}

// OperatorPath is the path of the console's page for operators.
const OperatorPath = "/operator"

// registerConsole adds the console at the root. Without it the root leads to the docs.
func (a *API) registerConsole(console, operations http.Handler) {
	if console == nil {
		a.mux.Handle("GET /{$}", http.RedirectHandler("/docs", http.StatusFound))
		return
	}
	a.mux.Handle("GET /{$}", console)
	a.mux.Handle("GET /console/{file}", console)
	if operations == nil {
		return
	}
	a.mux.Handle("GET "+OperatorPath, console)
	for _, pattern := range []string{"GET /metrics", "GET /admin/dead-letters/{topic}", "POST /admin/dead-letters/{topic}/redrive"} {
		a.mux.Handle(pattern, operations)
	}
}
