//go:build slow

package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// entries returns the headers and contents of a tar.
func entries(t *testing.T, from io.Reader) (headers map[string]*tar.Header, contents map[string]string) {
	t.Helper()
	headers, contents = map[string]*tar.Header{}, map[string]string{}
	for files := tar.NewReader(from); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		require.NoError(t, err)
		text, err := io.ReadAll(files)
		require.NoError(t, err)
		headers[h.Name], contents[h.Name] = h, string(text)
	}
}

// isTheImage reads the file in two ways: as docker load does, and as an OCI layout.
func isTheImage(t *testing.T, file, program string) {
	t.Helper()
	tag, err := name.NewTag("fanfare:v0.2.0-rc.1")
	require.NoError(t, err)
	image, err := tarball.ImageFromPath(file, &tag)
	require.NoError(t, err)
	require.NoError(t, validate.Image(image))

	opened, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	dir := t.TempDir()
	_, blobs := entries(t, opened)
	for name, text := range blobs {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))

	headers, contents := entries(t, mutate.Extract(image))
	binary, err := os.ReadFile(program)
	require.NoError(t, err)
	assert.Equal(t, string(binary), contents["bin/fanfare"])
	for _, daemon := range []string{"api", "fanout", "likeagg"} {
		assert.Equal(t, "fanfare", headers["bin/"+daemon].Linkname)
	}
	assert.Equal(t, user, headers["data"].Uid)
	assert.True(t, x509.NewCertPool().AppendCertsFromPEM([]byte(contents["etc/ssl/certs/ca-certificates.crt"])))
	assert.NotEmpty(t, contents["LICENSE"])
}

// isTheChart compares the package with the chart of the tree.
func isTheChart(t *testing.T, file string) {
	t.Helper()
	opened, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	zip, err := gzip.NewReader(opened)
	require.NoError(t, err)
	_, contents := entries(t, zip)
	own := os.DirFS("../deploy/helm")
	listed, err := git(t.Context(), "../deploy/helm", "ls-files", "fanfare")
	require.NoError(t, err)
	assert.Len(t, contents, len(strings.Split(listed, "\n")))
	for name, text := range contents {
		want, err := own.Open(name)
		require.NoError(t, err)
		wanted, err := io.ReadAll(want)
		require.NoError(t, err)
		if name == "fanfare/Chart.yaml" {
			assert.Contains(t, text, "\nversion: 0.2.0-rc.1\nappVersion: 0.2.0-rc.1\nkubeVersion: ")
			continue
		}
		assert.Equal(t, string(wanted), text, name)
	}
}

// statesItsFiles compares the provenance with the checksums.
func statesItsFiles(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "fanfare_v0.2.0-rc.1.provenance.json"))
	require.NoError(t, err)
	var s struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct{ ExternalParameters map[string]string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &s))
	require.Len(t, s.Subject, 5)
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	for _, file := range s.Subject {
		assert.Contains(t, string(sums), file.Digest["sha256"]+"  "+file.Name+"\n")
	}
	assert.Equal(t, map[string]string{"version": "v0.2.0-rc.1"}, s.Predicate.BuildDefinition.ExternalParameters)
}
