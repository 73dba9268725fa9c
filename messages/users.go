package messages

// UserForgotten requests the removal of a user, and of all that the user made before the
// event.
type UserForgotten struct {
	Header
	UserID string `json:"user_id" id:"user,group"`
}

// ProfileChanged requests the change of a user's name or image in the user's recent posts. It
// is sent before the profile changes, so that a crash in between loses nothing.
type ProfileChanged struct {
	Header
	UserID string `json:"user_id" id:"user,group"`
	// V is the version of the changed profile.
	V int64 `json:"v" jsonschema:"minimum=1"`
	// Before is the post below which the change continues, "" for the newest post.
	Before string `json:"before,omitempty" id:"ulid"`
}

func (e *ProfileChanged) check() error { return atLeastOne("v", e.V) }
