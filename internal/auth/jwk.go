package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/MicahParks/jwkset"

	"fanfare/internal/strictjson"
)

// publicKey is a key with the algorithms whose signatures it may check.
type publicKey struct {
	algs []string
	key  crypto.PublicKey
}

// parseKeySet returns the signing keys of a set, by their ids. A set may hold unsound keys and keys for other
// purposes, which parseKeySet leaves out: one bad key must not lock out the users of the good keys. So
// parseKeySet reads each key separately.
func parseKeySet(body []byte) (map[string][]*publicKey, error) {
	entries, err := strictjson.Elements(body, "keys")
	if err != nil {
		return nil, fmt.Errorf("not a JWK set: %w", err)
	}
	keys := map[string][]*publicKey{}
	for _, entry := range entries {
		var k jwkset.JWKMarshal
		if strictjson.Unmarshal(entry, &k) != nil || k.KID == "" || k.USE != "" && k.USE != jwkset.UseSig {
			continue
		}
		key, algs := public(k)
		if k.ALG != "" {
			algs = slices.DeleteFunc(algs, func(alg string) bool { return alg != string(k.ALG) })
		}
		// RFC 7517, 4.5: keys of several types may share an id. The algorithm
		// distinguishes them.
		if len(algs) > 0 {
			keys[k.KID] = append(keys[k.KID], &publicKey{algs, key})
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no sound signing key for " + strings.Join(algorithms, ", "))
	}
	return keys, nil
}

// public returns a key and the algorithms whose signatures it can check, no algorithm for an unsound key.
// It leaves out the certificates beside the key, because no token is checked by a certificate, and some
// issuers publish thumbprints of another form.
func public(k jwkset.JWKMarshal) (crypto.PublicKey, []string) {
	bare := jwkset.JWKMarshal{KTY: k.KTY, CRV: k.CRV, N: k.N, E: k.E, X: k.X, Y: k.Y}
	parsed, err := jwkset.NewJWKFromMarshal(bare, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return nil, nil
	}
	switch key := parsed.Key().(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() >= minRSABits && key.E > 2 {
			return key, []string{"RS256", "PS256", "PS384", "PS512"}
		}
	case ed25519.PublicKey:
		return key, []string{"EdDSA"}
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return key, []string{"ES256"}
		}
	}
	return nil, nil
}
