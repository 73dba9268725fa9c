package pair

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// serverName is the name in the certificates of both machines. Machines of a pair may have any address.
	serverName = "fanfare-pair"
	// keysLast is the time for which new certificates are valid.
	keysLast = 10 * 365 * 24 * time.Hour
	// handshakeTime is the timeout of a handshake.
	handshakeTime = 5 * time.Second
)

// Keys are the files with which a machine of a pair proves its identity, read again for each connection. The zero
// Keys are for a pair on loopback, whose connections are not encrypted.
type Keys struct{ Cert, Key, CA string }

// config returns the configuration of one connection. Both machines have certificates of the same CA.
func (k Keys) config() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(k.Cert, k.Key)
	if err != nil {
		return nil, fmt.Errorf("FANFARE_PEER_CERT and FANFARE_PEER_KEY: %w", err)
	}
	text, err := os.ReadFile(k.CA)
	if err != nil {
		return nil, fmt.Errorf("FANFARE_PEER_CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("FANFARE_PEER_CA: %s has no certificate", k.CA)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ServerName: serverName,
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// Check returns an error if the files cannot be used.
func (k Keys) Check() error {
	if k == (Keys{}) {
		return nil
	}
	_, err := k.config()
	return err
}

// Dial connects with the other machine at addr.
func (k Keys) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: handshakeTime}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if k == (Keys{}) {
		return conn, nil
	}
	config, err := k.config()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return handshake(ctx, tls.Client(conn, config))
}

// Accept makes an accepted connection a connection with the other machine. If it is somebody else, Accept closes the
// connection and returns an error. The files are read after the first message, so that silent strangers cost no reads.
func (k Keys) Accept(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if k == (Keys{}) {
		return conn, nil
	}
	return handshake(ctx, tls.Server(conn, &tls.Config{
		MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.config() },
	}))
}

func handshake(ctx context.Context, conn *tls.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the other side is not the other machine of the pair: %w", err), conn.Close())
	}
	return conn, nil
}

// MakeKeys makes the files of two machines in the new directory dir: ca.crt, and a certificate and a key for each machine.
// The key of the CA is not kept, so nobody can make a third machine.
func MakeKeys(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("the keys need a new directory: %w", err)
	}
	ca, caKey, err := certificate("fanfare pair CA", nil, nil)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", ca.Raw); err != nil {
		return err
	}
	for _, name := range []string{"one", "two"} {
		cert, key, err := certificate(serverName, ca, caKey)
		if err != nil {
			return err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return err
		}
		if err := errors.Join(
			writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", cert.Raw),
			writePEM(filepath.Join(dir, name+".key"), "PRIVATE KEY", der),
		); err != nil {
			return err
		}
	}
	return nil
}

// certificate makes a certificate and its key. Without a parent it is a CA that signs itself.
func certificate(name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(keysLast),
		BasicConstraintsValid: true,
	}
	if parent == nil {
		template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
		parent, parentKey = template, key
	} else {
		template.DNSNames, template.KeyUsage = []string{name}, x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
