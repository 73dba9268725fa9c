// Package static serves files that are in the binary. A file is compressed if the client accepts
// that, and is not sent while the client's copy is current. So a small request for a known file
// does not cause a large answer.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// File is a file in memory. It implements http.Handler for GET and HEAD.
type File struct {
	kind          string
	plain, zipped variant
}

// variant is the file in one coding, with the tag of the coded bytes.
type variant struct {
	content []byte
	tag     string
}

// New returns a file of a media type.
func New(kind string, content []byte) (*File, error) {
	f := &File{kind: kind, plain: newVariant(content)}
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	if zipped.Len() < len(content) {
		f.zipped = newVariant(zipped.Bytes())
	}
	return f, nil
}

// Below returns a page of HTML whose links to paths of its host lead below a prefix, "" for none.
func Below(prefix string, page []byte) []byte {
	var pairs []string
	for _, link := range []string{`href="/`, `src="/`, `href=/`} { // the last is of a template
		pairs = append(pairs, link, strings.TrimSuffix(link, "/")+prefix+"/")
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(page)))
}

func newVariant(content []byte) variant {
	sum := sha256.Sum256(content)
	return variant{content, `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// Size returns the maximum size of an answer's body, in bytes.
func (f *File) Size() int { return len(f.plain.content) }

// ServeHTTP implements http.Handler. A client revalidates each time, and gets 304 while its copy is current.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	h.Add("Vary", "Accept-Encoding")
	v := f.plain
	if f.zipped.content != nil && takesGzip(r.Header.Values("Accept-Encoding")) {
		v = f.zipped
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", v.tag)
	h.Set("Content-Length", strconv.Itoa(len(v.content))) // ServeContent sets none for a coded body
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(v.content))
}

// takesGzip reads the header Accept-Encoding (RFC 9110, section 12.5.3). The weight of gzip
// overrides the weight of *.
func takesGzip(lines []string) bool {
	weight := map[string]float64{}
	for part := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		coding, parameter, weighted := strings.Cut(part, ";")
		coding = strings.ToLower(strings.TrimSpace(coding))
		weight[coding] = 1
		if name, value, _ := strings.Cut(parameter, "="); weighted && strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil { // a client with an unreadable header gets the plain file
				q = 0
			}
			weight[coding] = q
		}
	}
	if q, named := weight["gzip"]; named {
		return q > 0
	}
	return weight["*"] > 0
}
