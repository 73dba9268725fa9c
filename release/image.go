package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the id of the user who owns the data in the image and runs its processes.
const user = 65532

// config returns the settings of the image that deploy/Dockerfile builds. A test compares these settings
// with the Dockerfile.
func config() v1.Config {
	return v1.Config{
		Env: []string{"PATH=/bin"}, WorkingDir: "/data", Volumes: map[string]struct{}{"/data": {}}, User: "65532:65532",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Cmd: []string{"fanfare", "up", "--http", "0.0.0.0:8080"},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "fanfare", "health"}, Interval: 10 * time.Second, Timeout: 6 * time.Second, StartPeriod: time.Minute,
		},
	}
}

// image returns the image of a binary as a tar. The tar is an OCI layout and an archive of docker save at
// the same time, so that docker load, podman load and skopeo accept it.
func (r release) image(goarch string, binary []byte) ([]byte, error) {
	layer, err := r.layer(binary)
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: goarch, Created: v1.Time{Time: r.at}, Config: config(), RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.at}, CreatedBy: "make release"}})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fanfare-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory that remains is harmless
	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return nil, err
	}
	err = path.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version}),
		layout.WithPlatform(v1.Platform{OS: "linux", Architecture: goarch}))
	if err != nil {
		return nil, err
	}
	manifest, err := r.dockerManifest(image)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	files := newArchive(&out, r.at)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		files.file(name, text)
		return err
	})
	files.file("manifest.json", manifest)
	return out.Bytes(), errors.Join(err, files.close())
}

// layer returns the layer with the files of the image.
func (r release) layer(binary []byte) (v1.Layer, error) {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var roots, out bytes.Buffer
	for root := range bundle.Roots() {
		err = errors.Join(err, pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	files := newArchive(&out, r.at)
	files.program("bin", binary)
	files.add(tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o755, Uid: user, Gid: user}, nil)
	for _, dir := range []string{"etc", "etc/ssl", "etc/ssl/certs"} {
		files.folder(dir)
	}
	files.file("etc/ssl/certs/ca-certificates.crt", roots.Bytes())
	files.file("LICENSE", license)
	if err := errors.Join(err, files.close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// dockerManifest returns the list in which docker load finds the files of an image among the blobs of the
// layout.
func (r release) dockerManifest(image v1.Image) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(d v1.Descriptor) string { return "blobs/" + strings.Replace(d.Digest.String(), ":", "/", 1) }
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(manifest.Config), RepoTags: []string{"fanfare:" + r.version}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer))
	}
	return json.Marshal([]any{entry})
}
