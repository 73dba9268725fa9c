package httpapi

import (
	_ "embed"
	"net/http"
)

// docsPage shows the OpenAPI document and loads nothing from another host.
//
//go:embed docs.html
var docsPage []byte

func (a *API) registerDocs() {
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Header().Set("Cache-Control", "no-cache")
		send(w, http.StatusOK, a.document)
	})
	a.mux.Handle("GET /{$}", http.RedirectHandler("/docs", http.StatusFound))
	a.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		send(w, http.StatusOK, docsPage)
	})
}
