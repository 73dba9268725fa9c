package messages

import (
	"errors"
	"fmt"
)

// UserForgotten requests the removal of a user, and of all that the user made before the
// event.
type UserForgotten struct {
	Header
	UserID string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
}

// ProfileChanged requests the change of a user's name or image in the user's recent posts. It
// is sent before the profile changes, so that a crash in between loses nothing.
type ProfileChanged struct {
	Header
	UserID string `json:"user_id" jsonschema:"pattern=^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0\\,63}$"`
	// V is the version of the changed profile.
	V int64 `json:"v" jsonschema:"minimum=1"`
	// Before is the post below which the change continues, "" for the newest post.
	Before string `json:"before,omitempty" jsonschema:"pattern=^[0-7][0-9A-HJKMNP-TV-Z]{25}$"`
}

// Kind implements Event.
func (*UserForgotten) Kind() Kind { return KindUserForgotten }

// Kind implements Event.
func (*ProfileChanged) Kind() Kind { return KindProfileChanged }

// Group implements Event.
func (e *UserForgotten) Group() string { return e.UserID }

// Group implements Event. A user who often changes a profile delays nobody else (I8).
func (e *ProfileChanged) Group() string { return e.UserID }

func (e *UserForgotten) check() error { return userID("user_id", e.UserID) }

func (e *ProfileChanged) check() error {
	err := userID("user_id", e.UserID)
	if e.V < 1 {
		err = errors.Join(err, fmt.Errorf("v is %d, below 1", e.V))
	}
	if e.Before != "" {
		err = errors.Join(err, ulid("before", e.Before))
	}
	return err
}
