package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"fanfare/internal/strictjson"
)

// publicKey is a key with the algorithms whose signatures it may check.
type publicKey struct {
	algs []string
	key  crypto.PublicKey
}

// jwk is one key of a set (RFC 7517 and 7518).
type jwk struct {
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Use string `json:"use"`
	Alg string `json:"alg"`
	N   string `json:"n"`
	E   string `json:"e"`
	Crv string `json:"crv"`
	X   string `json:"x"`
	Y   string `json:"y"`
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
		var k jwk
		if strictjson.Unmarshal(entry, &k) != nil || k.Kid == "" || (k.Use != "" && k.Use != "sig") {
			continue
		}
		key, algs, err := k.public()
		if k.Alg != "" {
			algs = slices.DeleteFunc(algs, func(alg string) bool { return alg != k.Alg })
		}
		// RFC 7517, 4.5: keys of several types may share an id. The algorithm
		// distinguishes them.
		if err == nil && len(algs) > 0 {
			keys[k.Kid] = append(keys[k.Kid], &publicKey{algs, key})
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no sound signing key for " + strings.Join(algorithms, ", "))
	}
	return keys, nil
}

// public returns the key and the algorithms whose signatures it can check.
func (k jwk) public() (crypto.PublicKey, []string, error) {
	switch {
	case k.Kty == "RSA":
		n, err := number(k.N)
		if err != nil {
			return nil, nil, fmt.Errorf("n: %w", err)
		}
		e, err := number(k.E)
		if err != nil {
			return nil, nil, fmt.Errorf("e: %w", err)
		}
		if n.BitLen() < minRSABits || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return nil, nil, fmt.Errorf("an RSA key needs %d bits or more and a sound exponent", minRSABits)
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}, []string{"RS256", "PS256", "PS384", "PS512"}, nil
	case k.Kty == "OKP" && k.Crv == "Ed25519":
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, nil, errors.New("x: not a key of Ed25519")
		}
		return ed25519.PublicKey(x), []string{"EdDSA"}, nil
	case k.Kty == "EC" && k.Crv == "P-256":
		x, err := number(k.X)
		if err != nil {
			return nil, nil, fmt.Errorf("x: %w", err)
		}
		y, err := number(k.Y)
		if err != nil {
			return nil, nil, fmt.Errorf("y: %w", err)
		}
		if x.BitLen() > 256 || y.BitLen() > 256 {
			return nil, nil, errors.New("its point is not on P-256")
		}
		point := make([]byte, 65)
		point[0] = 4 // the mark of an uncompressed point
		x.FillBytes(point[1:33])
		y.FillBytes(point[33:])
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		if err != nil {
			return nil, nil, errors.New("its point is not on P-256")
		}
		return key, []string{"ES256"}, nil
	}
	return nil, nil, errors.New("not a key for an algorithm of ours")
}

func number(s string) (*big.Int, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) == 0 {
		return nil, errors.New("not base64url")
	}
	return new(big.Int).SetBytes(raw), nil
}
