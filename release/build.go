package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// release is a version of a tree, with the folder for its files.
type release struct {
	root, out       string
	version, commit string
	at              time.Time
}

// build makes the files for each platform, the chart and the TypeScript client, and then the provenance
// and the checksums of all files.
func (r release) build(ctx context.Context, platforms []string) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // to publish
		return err
	}
	sums := map[string]string{}
	write := func(name string, content []byte) error {
		sums[name] = fmt.Sprintf("%x", sha256.Sum256(content))
		return os.WriteFile(filepath.Join(r.out, name), content, 0o644) //nolint:gosec // to publish
	}
	for _, platform := range platforms {
		files, err := r.buildFor(ctx, platform)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		for name, content := range files {
			if err := write(name, content); err != nil {
				return err
			}
		}
	}
	chart, err := r.chart()
	if err != nil {
		return err
	}
	if err := write("fanfare-"+r.version[1:]+".tgz", chart); err != nil { // the name has Helm's form
		return err
	}
	typescript, err := r.typescript(ctx)
	if err != nil {
		return err
	}
	if err := write("fanfare-client-"+r.version[1:]+".tgz", typescript); err != nil { // the name has npm's form
		return err
	}
	provenance, err := r.provenance(sums)
	if err != nil {
		return err
	}
	if err := write("fanfare_"+r.version+".provenance.json", provenance); err != nil {
		return err
	}
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&list, "%s  %s\n", sums[name], name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(list.String()), 0o644) //nolint:gosec // to publish
}

// buildFor returns the files of a platform by name.
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
	archive, err := r.programs(name, binary)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{name + ".tar.gz": archive, name + ".cdx.json": bom}
	if goos == "linux" {
		files[name+".image.tar"], err = r.image(goarch, binary)
	}
	return files, err
}

// compile returns the binary. From the environment it uses only the Go command and the caches of Go.
func (r release) compile(ctx context.Context, goos, goarch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "fanfare-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory that remains is harmless
	to := filepath.Join(dir, "fanfare")
	c := exec.CommandContext(ctx, "go", "build", "-tags=grpcnotrace", "-trimpath", "-buildvcs=false", "-o", to,
		fmt.Sprintf("-ldflags=-s -w -X 'fanfare/internal/obs.releaseVersion=%s' -X 'fanfare/internal/obs.releaseCommit=%s'", r.version, r.commit), "./cmd/fanfare")
	c.Dir = r.root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off")
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, text)
	}
	return os.ReadFile(to)
}

// bom returns the software bill of materials of a binary, which lists the modules in the binary.
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

// golang returns the component of a Go module. sum comes from go.sum, and is not the hash of a file.
func golang(name, version, sum string) cdx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", name, strings.TrimPrefix(version, "go"))
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: sum}}
	}
	return c
}
