package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// archive writes a tar. All files have the time of the release, and they have no owner unless the header
// sets an owner. close returns the first error of the archive.
type archive struct {
	to  *tar.Writer
	at  time.Time
	err error
}

func newArchive(to io.Writer, at time.Time) *archive {
	return &archive{to: tar.NewWriter(to), at: at}
}

func (a *archive) add(h tar.Header, content []byte) {
	h.Size, h.ModTime, h.Format = int64(len(content)), a.at, tar.FormatPAX
	if a.err == nil {
		a.err = a.to.WriteHeader(&h)
	}
	if a.err == nil {
		_, a.err = a.to.Write(content)
	}
}

func (a *archive) folder(name string) {
	a.add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, nil)
}

func (a *archive) file(name string, content []byte) {
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content)
}

// program writes the binary below dir, and a link to the binary for each daemon.
func (a *archive) program(dir string, binary []byte) {
	a.folder(dir)
	for _, daemon := range []string{"api", "fanout", "likeagg"} {
		a.add(tar.Header{Typeflag: tar.TypeSymlink, Name: path.Join(dir, daemon), Linkname: "fanfare", Mode: 0o777}, nil)
	}
	a.add(tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, "fanfare"), Mode: 0o755}, binary)
}

func (a *archive) close() error { return errors.Join(a.err, a.to.Close()) }

// zipped returns the output of write in gzip format.
func (r release) zipped(write func(*archive) error) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	files := newArchive(zip, r.at)
	err := errors.Join(write(files), files.close(), zip.Close())
	return out.Bytes(), err
}

// programs returns the archive of a binary, the pages and, for Linux, the unit of systemd.
func (r release) programs(name string, binary []byte) ([]byte, error) {
	return r.zipped(func(a *archive) error {
		a.folder(name)
		files := []string{"CHANGELOG.md", "LICENSE", "README.md"}
		if strings.Contains(name, "_linux_") {
			files = append(files, "deploy/systemd/fanfare.service")
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(r.root, file))
			if err != nil {
				return err
			}
			a.file(path.Join(name, path.Base(file)), text)
		}
		a.program(path.Join(name, "bin"), binary)
		return nil
	})
}

// chart returns the package of the Helm chart. The version of the chart and the version of its image are
// the version of the release.
func (r release) chart() ([]byte, error) {
	version := regexp.MustCompile(`(?m)^((?:appV|v)ersion: ).*$`)
	root := os.DirFS(filepath.Join(r.root, "deploy", "helm"))
	return r.zipped(func(a *archive) error {
		return fs.WalkDir(root, "fanfare", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := fs.ReadFile(root, name)
			if name == "fanfare/Chart.yaml" {
				text = version.ReplaceAll(text, []byte("${1}"+r.version[1:]))
			}
			a.file(name, text)
			return err
		})
	})
}
