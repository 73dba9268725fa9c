package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// release is one version of a tree.
type release struct {
	root, out       string
	version, commit string
	at              time.Time
}

// build makes the files for each platform, and then their checksums.
func (r release) build(ctx context.Context, platforms []string) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // to publish
		return err
	}
	var sums []string
	for _, platform := range platforms {
		files, err := r.buildFor(ctx, platform)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil { //nolint:gosec // to publish
				return err
			}
			sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
		}
	}
	slices.SortFunc(sums, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644) //nolint:gosec // to publish
}

// buildFor returns the files of a platform by their names.
func (r release) buildFor(ctx context.Context, platform string) (map[string][]byte, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, errors.New("no GOOS/GOARCH")
	}
	binary, err := r.compile(ctx, goos, goarch)
	if err != nil {
		return nil, err
	}
	bom, err := r.bom(binary)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("fanfare_%s_%s_%s", r.version, goos, goarch)
	archive, err := r.archive(name, binary)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{name + ".tar.gz": archive, name + ".cdx.json": bom}, nil
}

// compile returns the binary. Nothing of the environment takes part but Go itself and its
// caches.
func (r release) compile(ctx context.Context, goos, goarch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "fanfare-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory that stays does no harm
	to := filepath.Join(dir, "fanfare")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", to,
		fmt.Sprintf("-ldflags=-s -w -X 'fanfare/internal/obs.releaseVersion=%s' -X 'fanfare/internal/obs.releaseCommit=%s'", r.version, r.commit), "./cmd/fanfare")
	c.Dir = r.root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off")
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, text)
	}
	return os.ReadFile(to)
}

// archive returns the archive of a binary, with the daemons as links to it. Its files have the
// time of the release and no owner.
func (r release) archive(name string, binary []byte) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	files := tar.NewWriter(zip)
	var err error
	add := func(h tar.Header, content []byte) {
		h.Name, h.Size, h.ModTime, h.Format = path.Join(name, h.Name), int64(len(content)), r.at, tar.FormatPAX
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if err == nil {
			err = files.WriteHeader(&h)
		}
		if err == nil {
			_, err = files.Write(content)
		}
	}
	add(tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	for _, page := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(r.root, page))
		if err != nil {
			return nil, err
		}
		add(tar.Header{Typeflag: tar.TypeReg, Name: page, Mode: 0o644}, text)
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "bin", Mode: 0o755}, nil)
	for _, daemon := range []string{"api", "fanout"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + daemon, Linkname: "fanfare", Mode: 0o777}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/fanfare", Mode: 0o755}, binary)
	add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/likeagg", Linkname: "fanfare", Mode: 0o777}, nil)
	err = errors.Join(err, files.Close(), zip.Close())
	return out.Bytes(), err
}

// bom returns the software bill of materials of a binary: the modules that are linked into it.
func (r release) bom(binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, err
	}
	main := cdx.Component{
		BOMRef: "fanfare", Type: cdx.ComponentTypeApplication, Name: "fanfare", Version: r.version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(binary))}},
	}
	parts := []cdx.Component{golang("std", info.GoVersion, "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, golang(m.Path, m.Version, m.Sum))
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.at.Format(time.RFC3339), Component: &main}
	bom.Components, bom.Dependencies = &parts, &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

// golang is a Go module. Its sum is that of go.sum, which is no hash of a file.
func golang(name, version, sum string) cdx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", name, strings.TrimPrefix(version, "go"))
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: sum}}
	}
	return c
}
