package schema

import (
	"slices"
	"strings"
	"time"

	"fanfare/internal/table"
)

// Settings are the settings of one role that all daemons of a deployment must share. The stored
// settings are the settings of the process that started last. Settings are only for comparisons: no
// decision depends on them.
type Settings struct {
	Role string
	At   time.Time // the time of the start
	// Values has the value of each setting, by variable.
	Values map[string]string
}

// settingPrefix is the prefix of the name of each attribute that holds a setting.
const settingPrefix = "FANFARE_"

// SettingsKey returns the key of the settings of a role.
func SettingsKey(role string) table.Key { return table.Key{PK: "settings", SK: role} }

// Item encodes s.
func (s Settings) Item() table.Item {
	attrs := []table.Attr{millis(AttrAsOf, s.At)}
	for name, value := range s.Values {
		attrs = append(attrs, str(name, value))
	}
	slices.SortFunc(attrs, func(a, b table.Attr) int { return strings.Compare(a.Name, b.Name) })
	return table.Item{Key: SettingsKey(s.Role), Attrs: attrs}
}

// ParseSettings decodes the settings of a role.
func ParseSettings(it table.Item) Settings {
	s := Settings{Role: it.Key.SK, At: timeOf(&it, AttrAsOf), Values: map[string]string{}}
	for _, a := range it.Attrs {
		if strings.HasPrefix(a.Name, settingPrefix) {
			s.Values[a.Name] = a.Value.Str()
		}
	}
	return s
}
