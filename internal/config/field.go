package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// Field is the setting that a field of Config declares by its tags.
type Field struct {
	// Name is the variable, and In is the name of the field in Config.
	Name, In string
	// Kind is switch, duration, size, list, level, text or whole.
	Kind string
	// Default is the value of an absent variable. AWS, Dev and Up replace Default on aws, with dev tokens, and in
	// fanfare up. Unset describes a default that the program derives from other settings.
	Default, AWS, Dev, Up, Unset string
	// Low and High bound a number, "" for no bound. Zero is the meaning of 0 outside of these bounds, "" if 0 is
	// no exception. Why is the reason for the bounds.
	Low, High, Zero, Why string
	// Words are all values of a text.
	Words []string
	// Pattern matches a value of a text, or a part of a list, and Is describes these values. Form names a check that
	// replaces Pattern; then only the chart uses Pattern, because the chart knows only patterns.
	Pattern, Is, Form string
	// Most is the maximum number of parts of a list, whose parts differ; 0 is no limit.
	Most int
	// Embedded means that the setting is refused on aws, with Advice.
	Embedded bool
	Advice   string
	// Needs is the setting without which this setting has no effect: its name, or its name with a value.
	Needs string
	// Shared are the roles whose daemons must have the same value.
	Shared []string
	// By are the programs that read the setting.
	By []string
	// Secret means that nobody may see the value.
	Secret bool
	// Chart is the advice of the chart, which sets the value itself with each engine that has the setting.
	Chart string

	index   int            // of the field in Config
	matches *regexp.Regexp // Pattern
}

// Fields returns the settings in the order of Config.
func Fields() []Field { return slices.Clone(fields()) }

// fieldOf returns the setting with a name.
func fieldOf(name string) Field {
	return fields()[slices.IndexFunc(fields(), func(f Field) bool { return f.Name == name })]
}

var fields = sync.OnceValue(declared) //nolint:gochecknoglobals // the tags of Config do not change

// declared reads the tags of Config.
func declared() (fields []Field) {
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		tag := field.Tag.Get
		if tag("env") == "" {
			continue
		}
		f := Field{
			Name: tag("env"), In: field.Name, Kind: kind(field.Type), Default: tag("default"), AWS: tag("aws"), Dev: tag("dev"), Up: tag("up"), Unset: tag("unset"),
			Zero: tag("zero"), Why: tag("why"), Words: list(tag("words")), Pattern: tag("pattern"), Is: tag("is"), Form: tag("form"), Embedded: tag("engine") == string(EngineEmbedded),
			Advice: tag("advice"), Needs: tag("needs"), Shared: list(tag("shared")), By: list(tag("by")), Secret: tag("secret") != "", Chart: tag("chart"),
			index: i, matches: regexp.MustCompile("^(?:" + tag("pattern") + ")$"),
		}
		f.Low, f.High, _ = strings.Cut(tag("range"), "..")
		f.Most, _ = strconv.Atoi(tag("most")) // 0 without the tag
		fields = append(fields, f)
	}
	return fields
}

// list returns the parts of a list, without the blanks around them. An empty text has no parts.
func list(text string) (parts []string) {
	for part := range strings.SplitSeq(text, ",") {
		if text != "" {
			parts = append(parts, strings.TrimSpace(part))
		}
	}
	return parts
}

func kind(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Switch]():
		return "switch"
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Bytes]():
		return "size"
	case reflect.TypeFor[[]string]():
		return "list"
	case reflect.TypeFor[zapcore.Level]():
		return "level"
	}
	if t.Kind() == reflect.String {
		return "text"
	}
	return "whole"
}

// value returns the value of the field in c.
func (f Field) value(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().Field(f.index) }

// text returns the value in c as a person writes it.
func (f Field) text(c Config) string {
	v := f.value(&c).Interface()
	if parts, ok := v.([]string); ok {
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v)
}

// otherwise returns the value of the absent variable. The fields before this one are set in c.
func (f Field) otherwise(c Config) string {
	switch {
	case f.AWS != "" && c.Engine == EngineAWS:
		return f.AWS
	case f.Dev != "" && c.Auth == AuthDev:
		return f.Dev
	}
	return f.Default
}

// expected describes the values of the field's type, for the fault of a value of another type.
func (f Field) expected(value string) string {
	switch f.Kind {
	case "duration":
		return "a duration such as 1s or 720h"
	case "switch":
		switch strings.ToLower(value) {
		case "true":
			return "on or off: write on, which YAML keeps in quotes only ('on')"
		case "false":
			return "on or off: write off, which YAML keeps in quotes only ('off')"
		}
		return "on or off"
	case "size":
		return "a size such as 512MiB or 8GiB"
	case "level":
		return f.oneOf()
	default:
		return "a whole number"
	}
}

// oneOf returns the words of the field.
func (f Field) oneOf() string {
	last := len(f.Words) - 1
	if last == 0 {
		return f.Words[0]
	}
	return strings.Join(f.Words[:last], ", ") + " or " + f.Words[last]
}

// faults returns the faults of the value in c by itself.
func (f Field) faults(c *Config) (faults []string) {
	if f.Embedded && c.Engine == EngineAWS && c.set[f.Name] {
		fault := f.Name + ": it is of the embedded engine: remove it"
		if f.Advice != "" {
			fault += ", and " + f.Advice
		}
		faults = append(faults, fault)
	}
	if f.Low != "" && !f.inRange(f.value(c)) {
		faults = append(faults, fmt.Sprintf("%s: %s is %s", f.Name, f.text(*c), f.outside()))
	}
	if parts := f.parts(c); f.Most > 0 && len(parts) > f.Most {
		faults = append(faults, fmt.Sprintf("%s: %d parts are more than %d", f.Name, len(parts), f.Most))
	}
	for _, part := range f.parts(c) {
		if fault := f.partFault(part); fault != "" {
			faults = append(faults, f.Name+": "+fault)
		}
	}
	return faults
}

// parts returns the parts of a list. Another value is one part, unless it is absent.
func (f Field) parts(c *Config) []string {
	if parts, ok := f.value(c).Interface().([]string); ok {
		return parts
	}
	if text := f.text(*c); text != "" {
		return []string{text}
	}
	return nil
}

func (f Field) partFault(part string) string {
	switch {
	case len(f.Words) > 0 && !slices.Contains(f.Words, part):
		return fmt.Sprintf("%q is not %s", part, f.oneOf())
	case f.Form != "":
		return forms()[f.Form](part)
	case f.Pattern != "" && !f.matches.MatchString(part):
		return fmt.Sprintf("%q is not %s", part, f.Is)
	}
	return ""
}

// inRange reports whether a number is between the bounds.
func (f Field) inRange(v reflect.Value) bool {
	bound := func(text string, otherwise int64) int64 {
		if text == "" {
			return otherwise
		}
		var c Config
		c.read(map[string]string{f.Name: text}) // a test checks that each bound is a value
		return f.value(&c).Int()
	}
	return v.Int() == 0 && f.Zero != "" || v.Int() >= bound(f.Low, v.Int()) && v.Int() <= bound(f.High, v.Int())
}

// outside describes the values outside of the bounds.
func (f Field) outside() string {
	why := ""
	if f.Why != "" {
		why = ": " + f.Why
	}
	switch {
	case f.High == "":
		return "below " + f.Low + why
	case f.Zero != "":
		return fmt.Sprintf("neither 0 (%s) nor between %s and %s%s", f.Zero, f.Low, f.High, why)
	}
	return fmt.Sprintf("not between %s and %s%s", f.Low, f.High, why)
}
