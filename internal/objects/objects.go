// Package objects is the port to a store of objects: a bucket of S3 or a directory. An object
// gets its content once, under a name that is not in use, and never changes.
//
// The port has four calls, and one guarantee on which the archive depends: of all callers that
// create an object with the same name, one succeeds. The package must never know the content of
// an object, and never overwrite an object. The only exception is Conditional, which replaces the one
// version that its caller names: of all callers that name the same version, one succeeds.
package objects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"time"
)

// Store is a store of objects. Its calls may run at the same time. An error is ErrNotThere, an
// *ExistsError, ErrRefused or ErrAway, or the cause of the end of ctx, or names a mistake of
// the caller.
type Store interface {
	// Create stores an object under a name that no object has. When Create returns, the object
	// survives a power cut. If an object with the name has the same content, Create succeeds,
	// because an earlier try of the caller may have lost its answer. If the content differs,
	// Create returns an *ExistsError. After ErrAway, the object may be stored or not, or may
	// still be stored later.
	Create(ctx context.Context, name string, body Body) error
	// Get opens the content of an object. If the content is cut in the middle, Read returns ErrAway.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List yields the objects whose names begin with prefix and come after the name after. The
	// objects are in byte order of their names. The first error ends the list.
	List(ctx context.Context, prefix, after string) iter.Seq2[Object, error]
	// Delete removes an object. It succeeds if there is no such object.
	Delete(ctx context.Context, name string) error
}

// Object is an entry of a list.
type Object struct {
	Name string
	Size int64
	// At is the time at which the object was created, by the clock of the store.
	At time.Time
}

// Body is the content of an object. Create may read it several times.
type Body struct {
	From   io.ReaderAt
	Size   int64
	SHA256 [sha256.Size]byte
}

// Bytes returns a body with a content in memory.
func Bytes(content []byte) Body {
	return Body{bytes.NewReader(content), int64(len(content)), sha256.Sum256(content)}
}

// reader returns a reader of the whole body.
func (b Body) reader() *io.SectionReader { return io.NewSectionReader(b.From, 0, b.Size) }

var (
	// ErrNotThere means that no object has the name.
	ErrNotThere = errors.New("there is no such object")
	// ErrRefused means that the store answered and refuses this process because of its rights
	// or because of a missing bucket. An operator has to repair that.
	ErrRefused = errors.New("the store of objects refuses the call: check the address, the credentials and their rights")
	// ErrAway means that the store did not answer, or cannot do the call at the moment. A retry may succeed.
	ErrAway = errors.New("the store of objects is away")
)

// ExistsError is the refusal to create an object whose name another object has, with another content.
type ExistsError struct {
	Name string
	// SHA256 is the hash of the existing object.
	SHA256 [sha256.Size]byte
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("object %s exists with another content, of SHA-256 %x", e.Name, e.SHA256)
}

// maxName is less than the 1,024 bytes of a key of S3, which also has the prefix.
const maxName = 512

// validName matches names that are valid as keys of S3 and as paths of files. No part of a name
// begins with a dot, so no name leaves its directory. If "a/b" is a name, "a" must not be a
// name, because a directory cannot have both.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}(/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199})*$`)

func checkName(name string) error {
	if len(name) > maxName || !validName.MatchString(name) {
		return fmt.Errorf("%q is no name of an object", name)
	}
	return nil
}

// Read returns the content of an object. It fails if the content has more than most bytes.
func Read(ctx context.Context, store Store, name string, most int64) (content []byte, err error) {
	body, err := store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err = io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("object %s has more than %d bytes", name, most)
	}
	return content, nil
}

// exists compares the existing object with the body of a Create.
func exists(ctx context.Context, store Store, name string, body Body) error {
	there, err := store.Get(ctx, name)
	if err != nil {
		return err
	}
	defer there.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, there); err != nil {
		return err
	}
	found := &ExistsError{Name: name, SHA256: [sha256.Size]byte(sum.Sum(nil))}
	if found.SHA256 == body.SHA256 {
		return nil
	}
	return found
}

// failed adds a kind to the error of a call. The end of ctx is not a failure of the store.
func failed(ctx context.Context, kind error, call, name string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s %s: %w", call, name, cause)
	}
	return fmt.Errorf("%s %s: %w: %w", call, name, kind, err)
}
