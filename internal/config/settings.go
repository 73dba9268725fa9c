package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Setting is a setting as an operator reads it.
type Setting struct{ Name, Value string }

// Settings returns the settings that have a value, defaults included, in the order of Config. The value
// of a secret is not returned.
func (c Config) Settings() (settings []Setting) {
	fields := reflect.ValueOf(c)
	for i, field := range reflect.VisibleFields(fields.Type()) {
		name, value := field.Tag.Get("env"), reflect.Indirect(fields.Field(i))
		if name == "" || !value.IsValid() || value.IsZero() && value.Kind() == reflect.String {
			continue
		}
		text := fmt.Sprint(value.Interface())
		switch v := value.Interface().(type) {
		case Switch:
			text = word(bool(v))
		case []string:
			text = strings.Join(v, ",")
		}
		if strings.Contains(name, "SECRET") {
			text = "set"
		}
		if text != "" {
			settings = append(settings, Setting{name, text})
		}
	}
	return settings
}
