package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// originFault returns the fault of an origin that no browser sends, together with the right
// spelling. The fault is "" if a browser can send the origin. Browsers compare origins letter
// by letter, and so does the API.
func originFault(s string) string {
	wrong := fmt.Sprintf("%q is not an origin such as https://app.example (each is named in full)", s)
	if strings.Contains(s, "@") { // the text may have a password
		wrong = "one of them is not an origin such as https://app.example (each is named in full)"
	}
	u, err := url.Parse(s)
	if err != nil || !httpURL(s) || strings.ContainsAny(u.Host, "*%") {
		return wrong
	}
	host, ok := browserHost(u.Hostname())
	port, portOK := browserPort(u.Scheme, u.Port())
	if !ok || !portOK {
		return wrong
	}
	right := u.Scheme + "://" + host + port
	switch {
	case s == right:
		return ""
	case u.User != nil:
		return fmt.Sprintf("one of them has credentials, which browsers do not send: write %s", right)
	}
	return fmt.Sprintf("%q is not an origin as browsers send it: write %s", s, right)
}

// picturesFault returns the fault of an origin of pictures, "" if there is no fault. The policy of a page cannot name an
// IPv6 address.
func picturesFault(s string) string {
	if fault := originFault(s); fault != "" || !strings.Contains(s, "[") {
		return fault
	}
	return fmt.Sprintf("%q is an IPv6 address, which the policy of a page cannot name: write the name of the host", s)
}

// browserHost returns the spelling of a host in an origin of a browser: in lower case, in
// Punycode, and with short forms of addresses.
func browserHost(host string) (string, bool) {
	if at, err := netip.ParseAddr(host); err == nil {
		if at.Zone() != "" {
			return "", false
		}
		if at.Is4() {
			return at.String(), true
		}
		return "[" + at.String() + "]", true
	}
	names := idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false))
	host, err := names.ToASCII(host)
	last := host[strings.LastIndexByte(strings.TrimSuffix(host, "."), '.')+1:]
	if err != nil || host == "" || strings.ContainsAny(host, "\t\n\r #/:<>?@[\\]^|") {
		return "", false
	}
	// A browser reads a host as an address if the last part of the host is a number.
	_, err = strconv.ParseUint(strings.TrimSuffix(last, "."), 0, 64)
	return host, err != nil
}

// browserPort returns the port of an origin with the colon, "" for the default port of the scheme.
func browserPort(scheme, port string) (string, bool) {
	if port == "" {
		return "", true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", false
	}
	if scheme == "https" && n == 443 || scheme == "http" && n == 80 {
		return "", true
	}
	return ":" + strconv.FormatUint(n, 10), true
}
