package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// serviceLinks returns the variables that the kubelet sets in each pod of a namespace for one Service.
func serviceLinks(service, portName, protocol, ip string, port int) []string {
	name := strings.ToUpper(strings.ReplaceAll(service, "-", "_"))
	host := ip
	if strings.Contains(ip, ":") {
		host = "[" + ip + "]"
	}
	url := fmt.Sprintf("%s://%s:%d", protocol, host, port)
	each := fmt.Sprintf("%s_PORT_%d_%s", name, port, strings.ToUpper(protocol))
	return []string{
		name + "_SERVICE_HOST=" + ip, fmt.Sprintf("%s_SERVICE_PORT=%d", name, port),
		fmt.Sprintf("%s_SERVICE_PORT_%s=%d", name, strings.ToUpper(strings.ReplaceAll(portName, "-", "_")), port), name + "_PORT=" + url,
		each + "=" + url, each + "_PROTO=" + protocol, fmt.Sprintf("%s_PORT=%d", each, port), each + "_ADDR=" + ip,
	}
}

// A namespace may have a Service of any name. A pod that started before that Service must be able to restart.
func TestAServiceOfAnyNameStopsNoStart(t *testing.T) {
	for _, service := range []string{"fanfare", "fanfare-api", "fanfare-x-y", "fanfare--x", "fanfare-2", "fanfare-port", "fanfare-service-port", "fanfare-api-port-80-tcp", "fanfare-http-addr", "fanfare-name", "fanfare-env-x"} {
		for _, ip := range []string{"10.0.0.1", "fd00:10:96::a", "::1"} {
			for _, protocol := range []string{"tcp", "udp", "sctp"} {
				links := serviceLinks(service, "http-2", protocol, ip, 8080)
				for role := range config.API + 1 {
					_, err := config.Load(links, role)
					require.NoError(t, err)
				}
				for _, link := range links { // each link is ignored without the other links
					_, err := config.Load([]string{link}, config.API)
					require.NoError(t, err)
				}
			}
		}
	}
}

// Docker sets these variables in a container with a legacy link. It also copies the
// environment of the other container under changed names.
func TestALegacyLinkOfDockerStopsNoStart(t *testing.T) {
	for _, alias := range []string{"FANFARE", "FANFARE_API", "FANFARE_API_1"} {
		_, err := config.Load([]string{
			alias + "_ENV_FANFARE_ENGINE=aws", alias + "_ENV_PATH=", alias + "_ENV_NOTE=a=b\nc", alias + "_NAME=/web_1/" + strings.ToLower(alias),
			alias + "_PORT=tcp://172.17.0.2:8080", alias + "_PORT_8080_TCP=tcp://172.17.0.2:8080", alias + "_PORT_8080_TCP_ADDR=172.17.0.2",
			alias + "_PORT_8080_TCP_PORT=8080", alias + "_PORT_8080_TCP_PROTO=tcp", alias + "_PORT_8080_TCP_START=tcp://172.17.0.2:8080",
			alias + "_PORT_8090_TCP_END=tcp://172.17.0.2:8090", alias + "_PORT_8080_TCP_PORT_START=8080", alias + "_PORT_8090_TCP_PORT_END=8090",
		}, config.API)
		assert.NoError(t, err)
	}
}

func TestATypingErrorIsNoVariableOfAPlatform(t *testing.T) {
	for entry, want := range map[string]string{
		"FANFARE_PORT=8080":                         "FANFARE_PORT is unknown",
		"FANFARE_API_PORT=8080":                     "FANFARE_API_PORT is unknown",
		"FANFARE_API_PORT=":                         "FANFARE_API_PORT is unknown",
		"FANFARE_API_PORT=:8080":                    "FANFARE_API_PORT is unknown",
		"FANFARE_API_PORT=http://10.0.0.1:80":       "FANFARE_API_PORT is unknown",
		"FANFARE_API_PORT=tcp://api:80":             "FANFARE_API_PORT is unknown",
		"FANFARE_API_PORT=tcp://10.0.0.1:80/x":      "FANFARE_API_PORT is unknown",
		"FANFARE_HTTP_ADDRR=127.0.0.1":              "did you mean FANFARE_HTTP_ADDR?",
		"FANFARE_METRICS_ADD=tcp://10.0.0.1:9091":   "did you mean FANFARE_METRICS_ADDR?",
		"FANFARE_SERVICE_SCOP=a":                    "did you mean FANFARE_SERVICE_SCOPE?",
		"FANFARE_SERVICE_SCOPES=80":                 "did you mean FANFARE_SERVICE_SCOPE?",
		"FANFARE_SERVICE_HOST=api.example":          "FANFARE_SERVICE_HOST is unknown",
		"FANFARE_API_SERVICE_PORT=http":             "FANFARE_API_SERVICE_PORT is unknown",
		"FANFARE_API_SERVICE_PORT_HTTP=tcp://1:2":   "FANFARE_API_SERVICE_PORT_HTTP is unknown",
		"FANFARE_API_PORT_80_TCP=udp://10.0.0.1:80": "FANFARE_API_PORT_80_TCP is unknown",
		"FANFARE_API_PORT_80_TCP_PROTO=udp":         "FANFARE_API_PORT_80_TCP_PROTO is unknown",
		"FANFARE_API_PORT_80_TCP_ADDR=ten":          "FANFARE_API_PORT_80_TCP_ADDR is unknown",
		"FANFARE_API_PORT_80_HTTP=80":               "FANFARE_API_PORT_80_HTTP is unknown",
		"FANFARE_NAME=feed":                         "FANFARE_NAME is unknown",
		"FANFARE_TABLE_NAME=/feed":                  "FANFARE_TABLE_NAME is unknown",
		"FANFARE_ENV_ENGINE=aws":                    "FANFARE_ENV_ENGINE is unknown",
		"FANFARE_ENV=production":                    "FANFARE_ENV is unknown",
		"FANFAREX_SERVICE_PORTS=80 FANFARE_X=1":     "FANFARE_X is unknown",
	} {
		_, err := config.Load(strings.Fields(entry), config.Tool)
		assert.ErrorContains(t, err, want, entry)
	}
}

// A setting with the name of a platform's variable could be ignored by mistake.
func TestNoSettingHasTheNameOfAPlatform(t *testing.T) {
	for _, name := range config.Names() {
		for _, value := range []string{"10.0.0.1", "80", "tcp://10.0.0.1:80", "tcp", "/a/b"} {
			assert.NotContains(t, config.FromPlatform([]string{name + "=" + value, "FANFARE_NAME=/a/b"}), name, value)
		}
	}
}

func TestVariablesOfAPlatformAreListedByName(t *testing.T) {
	assert.Equal(t, []string{"FANFARE_API_PORT", "FANFARE_SERVICE_HOST"}, config.FromPlatform([]string{
		"FANFARE_TABLE=t", "FANFARE_SERVICE_HOST=10.0.0.1", "OTHER_PORT=tcp://10.0.0.1:80", "FANFARE_API_PORT=tcp://10.0.0.1:80", "FANFARE_WINDOW=1",
	}))
}

// YAML 1.1 reads off without quotation marks as false. Tools such as CloudFormation then set "false".
func TestASwitchThatYAMLHasReadIsExplained(t *testing.T) {
	for value, want := range map[string]string{
		"false": `"false" is not on or off: write off, which YAML keeps in quotes only ('off')`,
		"False": `"False" is not on or off: write off,`,
		"true":  `"true" is not on or off: write on, which YAML keeps in quotes only ('on')`,
		"TRUE":  `"TRUE" is not on or off: write on,`,
	} {
		for _, name := range []string{"FANFARE_LIKES_BY_USER", "FANFARE_CANARY"} { // with and without a default
			_, err := config.Load([]string{name + "=" + value}, config.Tool)
			assert.ErrorContains(t, err, name+": "+want)
		}
	}
	_, err := config.Load([]string{"FANFARE_PUSH_LIMIT=true"}, config.Tool)
	assert.EqualError(t, err, `environment: FANFARE_PUSH_LIMIT: "true" is not a whole number`)
}
