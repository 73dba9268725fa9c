package console_test

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"fanfare/internal/console"
)

// hostile are values that must stay text, in text and in every attribute.
func hostile() []string {
	return []string{`"><script>alert(1)</script>`, `' onload='alert(1)`, `javascript:alert(1)`, "`{{.}}`&amp;<!--+", `a,b/c?d=e#f %zz ü`}
}

// tokens returns the tags and the texts of a page. White space between two blocks is left out, and white
// space in a nav, a flex box: a browser draws all of them alike. Other white space is one space.
func tokens(t *testing.T, page string) []string {
	t.Helper()
	inline := regexp.MustCompile(`^</?(a|b|bdi|button|code|input|kbd|label|select|span|strong|svg|textarea|time)\b`)
	var all []string
	z := html.NewTokenizer(strings.NewReader(strings.ReplaceAll(page, "></path>", "/>")))
	for z.Next() != html.ErrorToken {
		all = append(all, regexp.MustCompile(`\s+`).ReplaceAllString(z.Token().String(), " "))
	}
	require.ErrorIs(t, z.Err(), io.EOF)
	var kept []string
	isBlock := func(i int) bool {
		return i < 0 || i >= len(all) || strings.HasPrefix(all[i], "<") && !inline.MatchString(all[i])
	}
	nav := false
	for i, token := range all {
		nav = (nav || strings.HasPrefix(token, "<nav")) && token != "</nav>"
		if isBlock(i-1) || nav && token == " " {
			token = strings.TrimPrefix(token, " ")
		}
		if isBlock(i + 1) {
			token = strings.TrimSuffix(token, " ")
		}
		if token != "" {
			kept = append(kept, token)
		}
	}
	return kept
}

var update = flag.Bool("update", false, "write the pages of testdata")

// The text and the behaviour of a page are the same as before, whatever its settings hold.
func TestThePagesAreAsRecorded(t *testing.T) {
	process := console.Process{
		Name: "fanfare up", Roles: []string{"api", "fanout", "likeagg"}, Host: "host-1", Version: "v1.2.3",
		Since: time.Date(2026, 3, 1, 12, 30, 0, 0, time.FixedZone("", 7200)), Alone: true,
	}
	strange := process
	strange.Name, strange.Host, strange.Version, strange.Alone, strange.Roles = hostile()[0], hostile()[1], hostile()[3], false, []string{"fanout"}
	for _, value := range hostile() {
		strange.Settings = append(strange.Settings, console.Setting{Name: value, Value: value})
	}
	full := console.People{
		DevTokens: true, Suggested: []string{"ann", "bob"}, LikeWindow: time.Second, Reactions: []string{"love", "sad"},
		Notifications: true, LikesByUser: true,
	}
	wild := full
	wild.Suggested, wild.Reactions = hostile(), hostile()
	issuer := full
	issuer.DevTokens, issuer.Reactions, issuer.Suggested = false, nil, nil
	lines := regexp.MustCompile(`<(head|title|meta|link|body|header|nav|main|section|h1|h2|p|form|label|dl|div|ul|li|figure|table|tbody|tr|article|template|script|footer|noscript)\b`)
	moderated := process
	moderated.Roles = []string{"api"}
	for name, c := range map[string]struct {
		cfg  console.Config
		path string
	}{
		"people":           {console.Config{People: &full, Operator: "/operator"}, "/"},
		"people-bare":      {console.Config{People: &console.People{}}, "/"},
		"people-tokens":    {console.Config{People: &issuer}, "/"},
		"people-hostile":   {console.Config{People: &wild, Operator: `/o?a&p`}, "/"},
		"operator":         {console.Config{People: &full, Operator: "/operator", Topics: []string{"posts", "likes"}, Process: process}, "/operator"},
		"operator-alone":   {console.Config{Operator: "/", Topics: []string{"posts"}, Process: console.Process{Since: process.Since}}, "/"},
		"operator-admin":   {console.Config{Operator: "/", Topics: []string{"posts"}, Process: moderated}, "/"},
		"moderator":        {console.Config{Operator: "/", Process: moderated}, "/moderate"},
		"standby":          {console.Config{Standby: &console.Standby{Peer: hostile()[0]}, Process: process}, "/users/ann"},
		"standby-admin":    {console.Config{Standby: &console.Standby{Peer: "two:7070"}, Process: process, Operator: "/"}, "/"},
		"operator-hostile": {console.Config{Operator: "/", Topics: hostile(), Process: strange}, "/"},
	} {
		page, file := get(t, c.cfg, c.path).Body.String(), filepath.Join("testdata", name+".html")
		want, err := os.ReadFile(file)
		if *update && !slices.Equal(tokens(t, string(want)), tokens(t, page)) {
			want = lines.ReplaceAll([]byte(page), []byte("\n$0"))
			err = os.WriteFile(file, want, 0o600)
		}
		require.NoError(t, err)
		assert.Equal(t, tokens(t, string(want)), tokens(t, page), name)
	}
}
