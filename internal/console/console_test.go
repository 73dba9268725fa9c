package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/console"
)

// get returns the answer of a new console for a path.
func get(t *testing.T, cfg console.Config, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	return ask(t, newConsole(t, cfg), path, header...)
}

func newConsole(t *testing.T, cfg console.Config) *console.Console {
	t.Helper()
	pages, err := console.New(cfg)
	require.NoError(t, err)
	return pages
}

// ask returns a console's answer for a path.
func ask(t *testing.T, pages http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res := httptest.NewRecorder()
	pages.ServeHTTP(res, req)
	return res
}

func people() console.Config { return console.Config{People: &console.People{DevTokens: true}} }

// loads returns the files that a page loads.
func loads(page string) []string {
	var files []string
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		files = append(files, m[1])
	}
	return files
}

func TestAPageLoadsItsOwnFilesOnly(t *testing.T) {
	all := people()
	all.Operator, all.Topics = "/operator", []string{"posts", "likes"}
	own := console.Config{Operator: "/", Process: console.Process{Roles: []string{"api"}}}
	for path, want := range map[string]int{"/": 6, "/users/ann": 6, "/posts/01ARZ3NDEKTSV4RRFFQ69G5FAV/likes": 6, "/operator": 7, "/moderate": 5} {
		pages := newConsole(t, all)
		if path == "/moderate" {
			pages = newConsole(t, own)
		}
		page := ask(t, pages, path).Body.String()
		files := 0
		for _, file := range loads(page) {
			if strings.HasPrefix(file, "/console/") {
				files++
			}
			if !strings.HasPrefix(file, "data:") && !strings.HasPrefix(file, "#") && file != "/docs" && file != "/metrics" {
				assert.Equal(t, http.StatusOK, ask(t, pages, file).Code, "%s leads to %s", path, file)
			}
		}
		assert.Equal(t, want, files, "files of %s", path)
		assert.NotRegexp(t, `<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|hx-on|javascript:|hx-vals="js:`, page, "the policy forbids")
	}
}

// The page of a standby has the status that programs get, and its files are there.
func TestTheStandbysPageIsAtEveryPath(t *testing.T) {
	pages := newConsole(t, console.Config{Standby: &console.Standby{Peer: "two:7070"}, Operator: "/"})
	for _, path := range []string{"/", "/users/ann", "/operator"} {
		res := ask(t, pages, path)
		assert.Equal(t, http.StatusServiceUnavailable, res.Code, path)
		assert.Contains(t, res.Body.String(), "<code>two:7070</code>", path)
		assert.Contains(t, res.Header().Get("Content-Security-Policy"), "default-src 'none'", path)
	}
	for _, file := range []string{"/console/base.css", "/console/operator.css", "/console/standby.js", "/console/pair.js", "/console/theme.js"} {
		assert.Equal(t, http.StatusOK, ask(t, pages, file).Code, file)
	}
	strangers := get(t, console.Config{Standby: &console.Standby{Peer: "two:7070"}, Process: console.Process{Host: "host-1", Version: "v1.2.3"}}, "/").Body.String()
	for _, part := range []string{`id="pair"`, "host-1", "v1.2.3"} {
		assert.NotContains(t, strangers, part, "strangers see nothing of the process")
	}
}

// Each module that a script imports is a file of the console.
func TestAScriptImportsTheConsolesFiles(t *testing.T) {
	pages := newConsole(t, people())
	for _, file := range scripts(t) {
		for _, m := range regexp.MustCompile(`from "([^"]+)"`).FindAllStringSubmatch(read(t, file), -1) {
			name, ours := strings.CutPrefix(m[1], "./")
			assert.True(t, ours && ask(t, pages, "/console/"+name).Code == http.StatusOK, "%s imports %s", file, m[1])
		}
	}
}

// A path that a script makes has the prefix of the pages. The page for moderators is at the root of the admin address.
func TestScriptsKnowThePrefix(t *testing.T) {
	paths := 0
	for _, file := range scripts(t) {
		if file == filepath.Join("assets", "moderator.js") {
			continue
		}
		for _, m := range regexp.MustCompile("(?:\\bfetch\\(|location\\.assign\\(|\\blink\\(|href: `|request\\.action = )([^,;]+)").FindAllStringSubmatch(read(t, file), -1) {
			paths++
			outside := m[1] == "href" || m[1] == "url.href" // functions with an address of a text
			assert.True(t, outside || strings.Contains(m[1], "base"), "%s: %s", file, m[0])
		}
	}
	assert.Greater(t, paths, 10)
}

func TestPagesLeadBelowAPrefix(t *testing.T) {
	for _, cfg := range []console.Config{people(), {Operator: "/operator"}, {Standby: &console.Standby{Peer: "two:7070"}}} {
		cfg.Prefix = "/feed"
		page := get(t, cfg, map[bool]string{true: "/operator", false: "/"}[cfg.Operator != ""]).Body.String()
		assert.Contains(t, page, `src="/feed/console/theme.js"`)
		assert.NotRegexp(t, `(href|src)="?/[^f]`, page)
	}
}

// feed.js has the page of each address, and no other page.
func TestEveryAddressHasItsPage(t *testing.T) {
	pages := newConsole(t, people())
	var served, known []string
	for _, pattern := range pages.Patterns() {
		if address := strings.NewReplacer("GET ", "", "{$}", "").Replace(pattern); !strings.HasPrefix(address, "/console/") {
			served = append(served, address)
		}
	}
	for _, m := range regexp.MustCompile(`\n  "(/[^"]*)": `).FindAllStringSubmatch(read(t, "assets/feed.js"), -1) {
		known = append(known, m[1])
	}
	assert.NotEmpty(t, served)
	assert.ElementsMatch(t, served, known)
}

func scripts(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("assets/*.js")
	require.NoError(t, err)
	require.Greater(t, len(found), 8)
	return found
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(content)
}

// The first page links to the operators' page only if the operators' page is served.
func TestTheOperatorsPageIsWhereItIsSaidToBe(t *testing.T) {
	assert.NotContains(t, get(t, people(), "/").Body.String(), "Operations")
	alone := console.Config{Operator: "/", Topics: []string{"posts"}}
	page := get(t, alone, "/").Body.String()
	assert.Contains(t, page, `hx-get="/admin/dead-letters/posts?limit=50"`)
	assert.NotContains(t, page, `href="/docs"`)
	assert.Equal(t, http.StatusNotFound, get(t, alone, "/operator").Code)
}

// Whoever reaches the page for moderators may end any post and any user. So only the admin address of a process with the API has
// that page.
func TestOnlyTheAdminAddressOfTheAPIHasThePageForModerators(t *testing.T) {
	api := console.Process{Roles: []string{"api", "fanout"}}
	of := people()
	of.Operator, of.Process = "/operator", api
	for name, c := range map[string]struct {
		cfg  console.Config
		want int
	}{
		"the admin address":              {console.Config{Operator: "/", Process: api}, http.StatusOK},
		"the address of the API":         {of, http.StatusNotFound},
		"the admin address of a fan-out": {console.Config{Operator: "/", Process: console.Process{Roles: []string{"fanout"}}}, http.StatusNotFound},
		"a console without an operator":  {people(), http.StatusNotFound},
	} {
		pages := newConsole(t, c.cfg)
		assert.Equal(t, c.want, ask(t, pages, "/moderate").Code, name)
		first := c.cfg.Operator
		if first == "" {
			first = "/"
		}
		assert.Equal(t, c.want == http.StatusOK, strings.Contains(ask(t, pages, first).Body.String(), `href="/moderate"`), name)
	}
}

// A process beside other processes does not know the whole system, so the operators' page names the process.
func TestTheChartsShowMetricsThatAProcessHas(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/METRICS.md")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(console.Charted()), 7)
	for _, name := range console.Charted() {
		assert.Contains(t, string(page), "`"+name+"`")
	}
}

func TestTheOperatorsPageNamesItsProcess(t *testing.T) {
	for alone, want := range map[bool]bool{true: false, false: true} {
		page := get(t, console.Config{Operator: "/", Process: console.Process{
			Name: "fanfare fanout", Roles: []string{"fanout"}, Settings: []console.Setting{{Name: "FANFARE_CANARY", Value: "off"}}, Host: "host-1", Version: "v1.2.3", Since: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC), Alone: alone,
		}}, "/").Body.String()
		for _, part := range []string{">fanfare fanout</h1>", "On host-1, version v1.2.3", "2026-03-01 12:30 UTC", `data-tile="deliveries"`, "<dt>FANFARE_CANARY</dt><dd>off</dd>"} {
			assert.Contains(t, page, part)
		}
		assert.NotContains(t, page, `data-tile="posts"`, "a number of another daemon")
		assert.Equal(t, want, strings.Contains(page, "of this process alone"))
	}
}

func TestEveryAnswerHasAStrictPolicy(t *testing.T) {
	pages := newConsole(t, people())
	for _, path := range []string{"/", "/users/ann", "/console/feed.js", "/console/base.css", "/console/htmx.min.js", "/console/htmx.LICENSE", "/console/pictures/ada.svg"} {
		header := ask(t, pages, path).Header()
		policy := header.Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self';", path)
		assert.NotRegexp(t, `unsafe|http|\*`, policy, path)
		assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), path)
		assert.NotEmpty(t, header.Get("Content-Type"), path)
	}
}

// A page loads pictures of its own host, and of the hosts that a setting names. Its scripts know the same hosts.
func TestThePolicyNamesTheHostsOfPictures(t *testing.T) {
	images := []string{"https://cdn.example", "http://localhost:9000"}
	of, moderator := people(), console.Config{Operator: "/", Process: console.Process{Roles: []string{"api"}}}
	for path, cfg := range map[string]console.Config{"/users/ann": of, "/moderate": moderator} {
		res := get(t, cfg, path)
		assert.Contains(t, res.Header().Get("Content-Security-Policy"), "; img-src 'self' data:; base-uri 'none';", path)
		assert.Contains(t, res.Body.String(), `data-images=""`, path)
		cfg.Images = images
		res = get(t, cfg, path)
		assert.Contains(t, res.Header().Get("Content-Security-Policy"), "; img-src 'self' data: https://cdn.example http://localhost:9000; base-uri 'none';", path)
		assert.Contains(t, res.Body.String(), `data-images="https://cdn.example http://localhost:9000"`, path)
	}
}

// The pictures of the demo are small, have a licence, and load nothing.
func TestThePicturesOfTheDemoAreSmallAndLoadNothing(t *testing.T) {
	found, err := filepath.Glob("pictures/*.svg")
	require.NoError(t, err)
	require.Greater(t, len(found), 10)
	for _, file := range found {
		picture := read(t, file)
		assert.Less(t, len(picture), 3000, file)
		assert.NotRegexp(t, `href|url\(|<script|<style|\sstyle=|\son[a-z]+=`, picture, file)
		assert.Equal(t, "image/svg+xml; charset=utf-8", get(t, people(), "/console/"+file).Header().Get("Content-Type"), file)
	}
	assert.Contains(t, read(t, "pictures/LICENSE"), "CC0 1.0")
}

func TestSettingsOnThePageAreText(t *testing.T) {
	script := `"><script>alert(1)</script>`
	cfg := people()
	cfg.People.Suggested = []string{script}
	assert.NotContains(t, get(t, cfg, "/").Body.String(), script)
}

func TestSignInByNameIsThereWithDevTokensOnly(t *testing.T) {
	cfg := people()
	assert.Contains(t, get(t, cfg, "/").Body.String(), `name="user"`)
	cfg.People.Site = true
	page := get(t, cfg, "/").Body.String()
	assert.Contains(t, page, `data-site`)
	assert.NotRegexp(t, `name="(user|token)"|data-click="signOut"`, page, "the site has the session")
	cfg.People.DevTokens, cfg.People.Site = false, false
	page = get(t, cfg, "/").Body.String()
	assert.NotContains(t, page, `data-site`)
	assert.Contains(t, page, `data-click="signOut"`)
	assert.NotContains(t, page, `name="user"`)
	assert.Contains(t, page, `name="token"`)
}

func TestThePageWaitsForTwoLikeWindows(t *testing.T) {
	cfg := people()
	cfg.People.LikeWindow = 10 * time.Second
	assert.Contains(t, get(t, cfg, "/").Body.String(), `data-likes-counted="20500"`)
}

func TestABrowserKeepsFilesWhileTheyAreCurrent(t *testing.T) {
	pages := newConsole(t, people())
	first := ask(t, pages, "/console/feed.js")
	again := ask(t, pages, "/console/feed.js", "If-None-Match", first.Header().Get("ETag"))
	assert.Equal(t, "200 304", fmt.Sprint(first.Code, " ", again.Code))
	assert.Empty(t, again.Body.String())
}

func TestUnknownFilesAreNotFound(t *testing.T) {
	pages := newConsole(t, people())
	for _, path := range []string{"/console/", "/console/console.go", "/console/../console.go", "/other"} {
		assert.NotEqual(t, http.StatusOK, ask(t, pages, path).Code, path)
	}
	assert.Equal(t, http.StatusNotFound, get(t, console.Config{}, "/").Code)
}

// The scripts of Fanfare make elements only from templates and texts, so no answer of the
// API can become markup.
func TestOurScriptTakesNoAnswerForMarkup(t *testing.T) {
	for _, file := range scripts(t) {
		assert.NotRegexp(t, `innerHTML\s*=|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|"https?://`, read(t, file), file)
	}
}

func TestEachFileOfOthersIsInTheirReadme(t *testing.T) {
	readme, err := os.ReadFile("third_party/README.md")
	require.NoError(t, err)
	found, err := filepath.Glob("third_party/*")
	require.NoError(t, err)
	require.Greater(t, len(found), 5)
	for _, file := range found {
		if name := filepath.Base(file); name != "README.md" {
			assert.Contains(t, string(readme), "`"+name+"`")
		}
	}
}
