package messages

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"fanfare/internal/id"
	"fanfare/internal/strictjson"
)

// The limits of the optional fields of a post, and of a comment and a profile. MaxPostData and
// MaxSmallData are bytes of the compact form of data.
const (
	MaxKind      = 32
	MaxMentions  = 50
	MaxPostData  = 4096
	MaxSmallData = 1024
	MaxDataDepth = 16
)

// ValidKind reports whether s is the kind of a post: a lower-case letter, then at most 31 lower-case
// letters, digits, and characters of "_.-".
func ValidKind(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter, other := c >= 'a' && c <= 'z', c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return s != "" && len(s) <= MaxKind
}

// MentionFaults returns the faults of a list of mentioned users, with their places in the list.
// It does not look at the length of the list.
func MentionFaults(users []string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i, user := range users {
			fault := ""
			switch {
			case !id.ValidUser(user):
				fault = "is not a user id"
			case slices.Contains(users[:i], user):
				fault = "occurs more than once"
			}
			if fault != "" && !yield(i, fault) {
				return
			}
		}
	}
}

// CompactData returns the compact form of custom data, which has at most a number of bytes. If the
// data is refused, it returns the fault, and the path of the member that has it.
func CompactData(data []byte, most int) (compact, place, fault string) {
	compact, err := strictjson.Object(data, most, MaxDataDepth)
	if refused, ok := errors.AsType[*strictjson.Error](err); ok {
		return "", refused.Field, refused.Detail
	}
	return compact, "", ""
}

// checkOptional returns the errors of the fields that a post may lack.
func (e *PostCreated) checkOptional() error {
	err := checkMentions(e.Mentions)
	if e.PostKind != "" && !ValidKind(e.PostKind) {
		err = errors.Join(err, fmt.Errorf("kind is not a lower-case letter and up to %d lower-case letters, digits, or characters of \"_.-\"", MaxKind-1))
	}
	if e.Data != nil {
		if _, bad := strictjson.Object(e.Data, MaxPostData, MaxDataDepth); bad != nil {
			err = errors.Join(err, fmt.Errorf("data: %w", bad))
		}
	}
	return err
}

func checkMentions(users []string) error {
	var errs []error
	if len(users) > MaxMentions {
		errs = append(errs, fmt.Errorf("mentions has %d users, more than %d", len(users), MaxMentions))
	}
	for i, fault := range MentionFaults(users) {
		errs = append(errs, fmt.Errorf("mentions[%d] %s", i, fault))
	}
	return errors.Join(errs...)
}
