package messages

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"fanfare/internal/id"
)

// entries returns an entry of each kind of event. A field with an id has the tag id: `user`, `ulid`, or
// `bound` for a bound of a range of users. The tag of the group's field ends with `,group`. An event with
// a rule of its own has a method check.
func entries() []*entry {
	return []*entry{
		entryFor[PostCreated](), entryFor[PostDeleted](), entryFor[UserForgotten](), entryFor[ProfileChanged](),
		entryFor[Liked](), entryFor[Unliked](), entryFor[Reacted](),
		entryFor[Followed](), entryFor[Unfollowed](), entryFor[MarkWalk](), entryFor[Seen](), entryFor[Returned](),
		entryFor[FanoutPlan](), entryFor[FanoutChunk](), entryFor[Commented](), entryFor[Mentioned](), entryFor[Reposted](),
		entryFor[PostDelivered](), entryFor[PostTakenDown](), entryFor[LikeCounted](), entryFor[Notified](),
	}
}

//nolint:gochecknoglobals // constant tables
var (
	byKind = indexed(func(e *entry) Kind { return e.kind })
	byType = indexed(func(e *entry) reflect.Type { return reflect.TypeOf(e.empty()) })
)

func indexed[K comparable](key func(*entry) K) map[K]*entry {
	all := map[K]*entry{}
	for _, e := range entries() {
		all[key(e)] = e
	}
	return all
}

// entry is a kind of event.
type entry struct {
	kind  Kind
	empty func() Event
	// opening is the beginning of every payload that Encode writes.
	opening string
	ids     []idField
	// group is the place of the field with the group.
	group []int
}

// idField is a field with an id.
type idField struct {
	place    []int
	name     string // in JSON
	optional bool
	valid    func(string) bool
	noun     string
}

func entryFor[T any]() *entry {
	of := reflect.TypeFor[T]()
	e := &entry{kind: Kind(of.Name()), empty: func() Event {
		event, _ := any(new(T)).(Event) // a test makes an event of each kind
		return event
	}}
	e.opening = `{"type":"` + of.Name() + `","version":` + strconv.Itoa(Version) + `,`
	for _, field := range reflect.VisibleFields(of) {
		grammar, role, _ := strings.Cut(field.Tag.Get("id"), ",")
		if role == "group" {
			e.group = field.Index
		}
		if grammar == "" || field.Type.Kind() != reflect.String {
			continue
		}
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		of := idField{field.Index, name, option == "omitempty", id.ValidUser, "a user id"}
		if grammar == "ulid" {
			of.valid, of.noun = id.Valid, "a ULID"
		}
		e.ids = append(e.ids, of)
	}
	return e
}

func entryOf(e Event) *entry { return byType[reflect.TypeOf(e)] }

// check returns the errors of an event's fields.
func (of *entry) check(e Event) (err error) {
	value := reflect.ValueOf(e).Elem()
	for _, field := range of.ids {
		if text := value.FieldByIndex(field.place).String(); !field.valid(text) && (text != "" || !field.optional) {
			err = errors.Join(err, fmt.Errorf("%s is not %s", field.name, field.noun))
		}
	}
	if e.Head().Time.IsZero() {
		err = errors.Join(err, errors.New("time is missing"))
	}
	if special, ok := e.(interface{ check() error }); ok {
		err = errors.Join(err, special.check())
	}
	return err
}

// KindOf returns the kind of an event.
func KindOf(e Event) Kind {
	if of := entryOf(e); of != nil {
		return of.kind
	}
	return ""
}

// GroupOf returns the key of fairness of an event: a message waits for the messages of its own group,
// and not for messages of other groups (I8).
func GroupOf(e Event) string {
	return reflect.ValueOf(e).Elem().FieldByIndex(entryOf(e).group).String()
}

// Kinds returns all kinds of event.
func Kinds() []Kind {
	var all []Kind
	for _, e := range entries() {
		all = append(all, e.kind)
	}
	return all
}

// New returns an empty event of a kind, nil for an unknown kind.
func New(kind Kind) Event {
	if of := byKind[kind]; of != nil {
		return of.empty()
	}
	return nil
}
