// Command pki writes the certificates of one test control plane into a folder.
//
//	pki init DIR                   the authority, the API server's certificate and the key for service account tokens
//	pki user DIR FILE NAME GROUP…  a client certificate for a user with groups
//
// Everything is valid for two days and lives in a temporary folder.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "init":
		return initialise(args[1])
	case len(args) >= 4 && args[0] == "user":
		subject := pkix.Name{CommonName: args[3], Organization: args[4:]}
		return issue(args[1], args[2], &x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	return fmt.Errorf("usage: pki init DIR | pki user DIR FILE NAME GROUP…")
}

// initialise makes the authority, what the API server serves with, and the service accounts' signing key.
func initialise(dir string) error {
	key, err := newKey(dir, "ca")
	if err != nil {
		return err
	}
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: "control-plane-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if err := sign(dir, "ca", authority, authority, key, key); err != nil {
		return err
	}
	if _, err := newKey(dir, "service-accounts"); err != nil {
		return err
	}
	return issue(dir, "server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "kubernetes.default.svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// issue signs one certificate with the authority that `init` wrote.
func issue(dir, name string, template *x509.Certificate) error {
	certificate, err := read(dir, "ca.crt", x509.ParseCertificate)
	if err != nil {
		return err
	}
	authorityKey, err := read(dir, "ca.key", x509.ParseECPrivateKey)
	if err != nil {
		return err
	}
	key, err := newKey(dir, name)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return sign(dir, name, template, certificate, key, authorityKey)
}

func sign(dir, name string, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(48 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return err
	}
	return write(dir, name+".crt", "CERTIFICATE", der)
}

func newKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(dir, name+".key", "EC PRIVATE KEY", der)
}

func read[T any](dir, file string, parse func([]byte) (T, error)) (T, error) {
	var none T
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return none, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return none, fmt.Errorf("%s holds no PEM block", file)
	}
	return parse(block.Bytes)
}

func write(dir, file, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
