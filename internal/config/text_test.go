package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// faultsOf returns the faults of an API's settings.
func faultsOf(t *testing.T, environ ...string) []string {
	t.Helper()
	_, err := config.Load(environ, config.API)
	if err == nil {
		return nil
	}
	bad, ok := errors.AsType[*config.Error](err)
	require.Truef(t, ok, "%v", err)
	return bad.Faults
}

// Secrets, .env files and YAML blocks end in a newline. A text with a newline must not count as another name.
func TestNoSettingTakesBlanksAroundIt(t *testing.T) {
	values := map[string]string{
		"FANFARE_ARCHIVE": "file:///archive", "FANFARE_PEER": "10.0.0.2:7070", "FANFARE_PEER_ADDR": ":7070", "FANFARE_PEER_CERT": "/cert", "FANFARE_PEER_KEY": "/key", "FANFARE_PEER_CA": "/ca",
		"FANFARE_REGISTER": "s3://bucket/pair", "FANFARE_EVENTS_QUEUE": "events", "FANFARE_METRICS_ADDR": "127.0.0.1:3", "FANFARE_JWT_ISSUER": "https://i", "FANFARE_JWKS_URL": "https://i/keys",
		"FANFARE_DEV_SECRET": strings.Repeat("s", 40),
	}
	for _, f := range config.Fields() {
		if values[f.Name] == "" && len(f.Words) > 0 {
			values[f.Name] = f.Words[0]
		}
		if values[f.Name] == "" && f.Default != "" {
			values[f.Name] = f.Default
		}
	}
	lists := map[string]string{"FANFARE_JWT_AUDIENCE": "a,b", "FANFARE_CORS_ORIGINS": "https://a.example,https://b.example", "FANFARE_CONSOLE_IMAGES": "https://a.example,https://b.example", "FANFARE_CORS_HEADERS": "X-A,X-B", "FANFARE_DEV_AUTH_HOSTS": "api,api.internal", "FANFARE_REACTIONS": "love,wow"}
	for _, name := range config.Names() {
		value, single := values[name]
		var beside []string // the settings without which this one is refused
		for _, other := range []string{"FANFARE_REGISTER", "FANFARE_PEER", "FANFARE_PEER_ADDR", "FANFARE_PEER_CERT", "FANFARE_PEER_KEY", "FANFARE_PEER_CA"} {
			if strings.HasPrefix(name, "FANFARE_PEER") && other != name {
				beside = append(beside, other+"="+values[other])
			}
		}
		if !single {
			value = lists[name]
			require.NotEmptyf(t, value, "%s needs a value here", name)
			if name == "FANFARE_DEV_AUTH_HOSTS" {
				beside = append(beside, "FANFARE_DEV_AUTH_PUBLIC=allow")
			}
			for _, text := range []string{value + "\n", " " + value + "\r\n", strings.Replace(value, ",", " ,\n ", 1)} {
				assert.Emptyf(t, faultsOf(t, append(beside, name+"="+text)...), "%s=%q: lists are trimmed", name, text)
			}
			assert.Lenf(t, faultsOf(t, name+"="+strings.Replace(value, ",", "\v,x\ny,", 1)), 1, "%s", name)
			continue
		}
		require.Emptyf(t, faultsOf(t, append(beside, name+"="+value)...), "%s", name)
		for text, want := range map[string]string{
			value + "\n": "it ends in a newline: remove it", value + " ": "it ends in a blank: remove it", "\t" + value: "it begins with a tab: remove it", value + "\r\n": "it ends in a carriage return: remove it",
			value + "\u00a0": "it ends in the character U+00A0: remove it", "\ufeff" + value: "it begins with the character U+FEFF: remove it", value + "\u200b": "it ends in the character U+200B: remove it",
			value[:1] + "\x1b" + value[1:]: "it has the character U+001B inside: remove it", value[:1] + "\n" + value[1:]: "", " ": "it ends in a blank: remove it",
		} {
			faults := slices.DeleteFunc(faultsOf(t, append(beside, name+"="+text)...), func(fault string) bool { // the rest of a pair, whose other half is removed
				return strings.Contains(fault, " is missing: ") || strings.Contains(fault, "belong together")
			})
			require.Lenf(t, faults, 1, "%s=%q: %v", name, text, faults)
			if len(value) > 1 && want != "" || strings.HasPrefix(want, "it ends") {
				assert.Equalf(t, name+": "+want, faults[0], "%q", text)
			}
			assert.NotContains(t, faults[0], value+"s", "a secret")
		}
	}
}

func TestAWSVariablesWithBlanksAreNamedAtTheStart(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ROLE_ARN"} {
		for _, value := range []string{"hunter2\n", " hunter2", "hunter2\r\n", "hun\nter2"} {
			for _, need := range []string{"FANFARE_ENGINE=aws", "FANFARE_EVENTS_QUEUE=events"} {
				_, err := config.Load([]string{need, name + "=" + value}, config.Worker)
				require.ErrorContainsf(t, err, name+": it ", "%q", value)
				assert.NotContains(t, err.Error(), "hunter2")
			}
			_, err := config.Load([]string{name + "=" + value}, config.Worker)
			assert.NoError(t, err, "nothing reads it")
		}
		_, err := config.Load([]string{"FANFARE_ENGINE=aws", name + "=hunter2"}, config.Worker)
		require.NoError(t, err)
	}
}

func TestOriginsAreThoseThatBrowsersSend(t *testing.T) {
	for _, origin := range []string{
		"https://a.example", "http://localhost:3000", "https://a.example:8443", "http://a.example:443", "https://a.example:80", "http://127.0.0.1:8080", "http://[::1]:8080", "https://xn--bcher-kva.example",
		"https://a_b.example", "https://a.example.", "http://a", "https://1a.example", "https://a.1b",
	} {
		assert.Emptyf(t, faultsOf(t, "FANFARE_CORS_ORIGINS="+origin), "%s", origin)
	}
	for origin, right := range map[string]string{
		"https://A.Example": "https://a.example", "HTTPS://a.example": "https://a.example", "https://a.example:443": "https://a.example", "http://a.example:80": "http://a.example", "http://a.example:080": "http://a.example",
		"https://a.example:": "https://a.example", "https://a.example/": "https://a.example", "https://a.example/app": "https://a.example", "https://a.example?x": "https://a.example", "https://a.example#x": "https://a.example", "https://a.example?": "https://a.example",
		"https://a.example:08443": "https://a.example:8443", "https://bücher.example": "https://xn--bcher-kva.example", "https://BÜCHER.example:443/": "https://xn--bcher-kva.example", "https://faß.example": "https://xn--fa-hia.example",
		"http://[0:0:0:0:0:0:0:1]": "http://[::1]", "http://[::FFFF]:80": "http://[::ffff]", "https://ａ.example": "https://a.example", "https://a。example": "https://a.example",
	} {
		faults := faultsOf(t, "FANFARE_CORS_ORIGINS="+origin)
		require.Lenf(t, faults, 1, "%s", origin)
		assert.Containsf(t, faults[0], "is not an origin as browsers send it: write "+right, "%s", origin)
		assert.Truef(t, strings.HasSuffix(faults[0], "write "+right), "%s: %s", origin, faults[0])
		assert.Emptyf(t, faultsOf(t, "FANFARE_CORS_ORIGINS="+right), "%s", right)
	}
	faults := faultsOf(t, "FANFARE_CORS_ORIGINS=https://u:hunter2@a.example")
	require.Len(t, faults, 1)
	assert.Equal(t, "FANFARE_CORS_ORIGINS: one of them has credentials, which browsers do not send: write https://a.example", faults[0])
	faults = faultsOf(t, "FANFARE_CORS_ORIGINS=https://u:hunter2@a.example:x")
	require.Len(t, faults, 1)
	assert.NotContains(t, faults[0], "hunter2")
	for _, origin := range []string{
		"*", "null", "a.example", "//a.example", "https://", "https://*.example", "ftp://a.example", "https://a b.example", "https://a.example:70000", "https://a.example:x", "https://a%2eexample", "https://1.2.3", "http://127.1", "http://0x7f000001",
		"http://2130706433", "http://1.2.3.4.", "http://[fe80::1%25eth0]", "https://a..example:99999", "https:a.example", "https://a^b",
	} {
		faults := faultsOf(t, "FANFARE_CORS_ORIGINS="+origin)
		require.Lenf(t, faults, 1, "%s", origin)
		assert.Containsf(t, faults[0], "is not an origin such as", "%s", origin)
	}
}
