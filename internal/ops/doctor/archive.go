package doctor

import (
	"context"
	"crypto/rand"
	"errors"

	"fanfare/internal/objects"
)

// archive tries each call of the archive. The object that it creates is deleted again.
func (e *examination) archive(ctx context.Context) {
	location, err := objects.Parse(e.cfg.Archive)
	if err != nil { // the configuration has named this fault
		return
	}
	store, err := location.Open(ctx)
	if err != nil {
		e.note(LevelFault, "archive", "make the directory or mount its disk, or see docs/CONFIGURATION.md, Variables of AWS and Go", "%w", err)
		return
	}
	if err := tryStore(ctx, store); err != nil {
		mend := "let this machine reach the store; meanwhile fanfare up starts without it"
		if errors.Is(err, objects.ErrRefused) {
			mend = "allow the calls of fanfare iam policy --daemon up, or correct FANFARE_ARCHIVE"
		}
		e.note(LevelFault, "archive", mend, "%w", err)
		return
	}
	e.ok("archive", "%s takes, gives, lists and deletes objects, and overwrites none", e.cfg.Archive)
}

// errOverwrites means that a store does not have the guarantee on which the archive depends.
var errOverwrites = errors.New("the store overwrites objects, so two processes could write to one archive: use a store that knows If-None-Match")

// tryStore makes each call of a store.
func tryStore(ctx context.Context, store objects.Store) (err error) {
	name := "doctor/" + rand.Text()
	if err := store.Create(ctx, name, objects.Bytes([]byte("first"))); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Delete(ctx, name)) }()
	err = store.Create(ctx, name, objects.Bytes([]byte("second")))
	if err == nil {
		return errOverwrites
	}
	if _, exists := errors.AsType[*objects.ExistsError](err); !exists {
		return err
	}
	content, err := objects.Read(ctx, store, name, 64)
	if err != nil {
		return err
	}
	if string(content) != "first" {
		return errOverwrites
	}
	for object, err := range store.List(ctx, "doctor/", "") {
		if err != nil {
			return err
		}
		if object.Name == name {
			return nil
		}
	}
	return errors.New("the store does not list an object that it took")
}
