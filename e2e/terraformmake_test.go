package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"go.yaml.in/yaml/v3"
)

// module writes a template of CloudFormation as a module of Terraform. The provider awscc has the resource
// types of CloudFormation with names in snake case, so each property has one attribute.
type module struct {
	t        *testing.T
	template string
	sections map[string]*yaml.Node
	// schema has the attributes of the provider by type: the name of a scalar's type, "map", a list of one part, or
	// attributes. The provider takes nested properties without a fixed form as a text of JSON.
	schema map[string]any
	// types has the type of each resource, and conditions the condition of a resource.
	types, conditions map[string]string
	// parameters are the variables that replace parameters, and pseudo are the used pseudo parameters.
	parameters map[string]variable
	pseudo     map[string]bool
}

// anyJSON is the kind of the parts of a text of JSON.
const anyJSON = "json"

// pseudoParameters are the variables that replace pseudo parameters.
func pseudoParameters() map[string]string {
	return map[string]string{"AWS::Region": "region", "AWS::AccountId": "account_id", "AWS::Partition": "partition", "AWS::StackName": "name"}
}

// references returns the attribute that equals CloudFormation's Ref, by type.
func references() map[string]string {
	return map[string]string{
		"AWS::DynamoDB::Table": "table_name", "AWS::ECS::Cluster": "cluster_name", "AWS::IAM::Role": "role_name",
		"AWS::IAM::ManagedPolicy": "policy_arn", "AWS::Logs::LogGroup": "log_group_name", "AWS::ECS::TaskDefinition": "task_definition_arn",
		"AWS::ApplicationAutoScaling::ScalableTarget": "scalable_target_id",
	}
}

func newModule(t *testing.T, template string) *module {
	t.Helper()
	m := &module{
		t: t, template: template, sections: sectionsOf(t, template), schema: providerSchema(t),
		types: map[string]string{}, conditions: map[string]string{}, parameters: map[string]variable{}, pseudo: map[string]bool{},
	}
	for name, p := range pairs(m.sections["Parameters"]) {
		m.parameters[name.Value] = variableOf(t, name.Value, p)
	}
	for name, resource := range pairs(m.sections["Resources"]) {
		m.types[name.Value] = field(resource, "Type").Value
		if c := field(resource, "Condition"); c != nil {
			m.conditions[name.Value] = c.Value
		}
	}
	return m
}

// sectionsOf returns the sections of a template. A parameter without a description of its values has the description of the
// parameter with its name in another template: the templates have a maximum size.
func sectionsOf(t *testing.T, template string) map[string]*yaml.Node {
	t.Helper()
	read := func(template string) map[string]*yaml.Node {
		text, err := os.ReadFile("../deploy/cloudformation/" + template)
		require.NoError(t, err)
		var root yaml.Node
		require.NoError(t, yaml.Unmarshal(text, &root))
		sections := map[string]*yaml.Node{}
		for name, section := range pairs(root.Content[0]) {
			sections[name.Value] = section
		}
		return sections
	}
	const description = "ConstraintDescription"
	sections := read(template)
	for _, other := range terraformTemplates() {
		others := read(other)["Parameters"]
		for name, p := range pairs(sections["Parameters"]) {
			if there := field(field(others, name.Value), description); there != nil && field(p, description) == nil {
				p.Content = append(p.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: description}, there)
			}
		}
	}
	return sections
}

// providerSchema returns the attributes of the provider awscc 1.x for the types of the stacks.
func providerSchema(t *testing.T) (schema map[string]any) {
	t.Helper()
	text, err := os.ReadFile("testdata/awscc.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &schema))
	return schema
}

// pairs iterates over the keys and values of a mapping; nil has none.
func pairs(n *yaml.Node) func(func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; n != nil && i < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// field returns the value of a key, nil if the key is absent.
func field(n *yaml.Node, name string) *yaml.Node {
	for key, value := range pairs(n) {
		if key.Value == name {
			return value
		}
	}
	return nil
}

var (
	wordEnd    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronym    = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	subPart    = regexp.MustCompile(`\$\{[^}]*\}`)
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)

// attributeName returns the name of an attribute or variable.
func attributeName(name string) string {
	return strings.ToLower(wordEnd.ReplaceAllString(acronym.ReplaceAllString(name, "${1}_$2"), "${1}_$2"))
}

// resourceType returns the provider's name of a type such as AWS::SQS::Queue.
func resourceType(cloudFormation string) string {
	parts := strings.Split(cloudFormation, "::")
	return "awscc_" + strings.ToLower(parts[1]) + "_" + attributeName(parts[2])
}

func quoted(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

// intrinsic returns the name of a function of CloudFormation and its argument, "" for another value.
func intrinsic(n *yaml.Node) (name string, argument *yaml.Node) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && strings.HasPrefix(n.Content[0].Value, "Fn::") {
		return strings.TrimPrefix(n.Content[0].Value, "Fn::"), n.Content[1]
	}
	if name, own := strings.CutPrefix(n.Tag, "!"); own && !strings.HasPrefix(name, "!") {
		return name, n
	}
	return "", nil
}

// value returns a value as an expression. kind is the provider's type of the value.
func (m *module) value(n *yaml.Node, kind any) string {
	if name, argument := intrinsic(n); name != "" {
		return m.call(name, argument, kind)
	}
	if n.Kind != yaml.ScalarNode && kind == "string" {
		return "jsonencode(" + m.value(n, anyJSON) + ")"
	}
	switch n.Kind {
	case yaml.MappingNode:
		return m.object(n, kind)
	case yaml.SequenceNode:
		return m.list(n, kind)
	default: // a scalar
	}
	if kind == "number" || kind == "bool" || kind == anyJSON && (n.Tag == "!!int" || n.Tag == "!!bool") {
		return n.Value
	}
	return quoted(n.Value)
}

func (m *module) object(n *yaml.Node, kind any) string {
	var b strings.Builder
	b.WriteString("{\n")
	attributes, isObject := kind.(map[string]any)
	for key, value := range pairs(n) {
		name, of := key.Value, any("string")
		if isObject {
			name = attributeName(key.Value)
			of = attributes[name]
			require.NotNilf(m.t, of, "%s: the provider has no attribute %s", m.template, name)
		} else if kind == anyJSON {
			of = anyJSON
		}
		if !identifier.MatchString(name) {
			name = quoted(name)
		}
		b.WriteString(name + " = " + m.value(value, of) + "\n")
	}
	return b.String() + "}"
}

// list returns a list. A part that may be AWS::NoValue is a list of its own, which may be empty.
func (m *module) list(n *yaml.Node, kind any) string {
	of := any(anyJSON)
	if parts, ok := kind.([]any); ok {
		of = parts[0]
	} else if kind == nil {
		of = nil
	}
	var lists, run []string
	end := func() {
		if len(run) > 0 {
			lists, run = append(lists, "["+strings.Join(run, ", ")+"]"), nil
		}
	}
	for _, part := range n.Content {
		if part.Tag == "!If" && part.Content[2].Tag == "!Ref" && part.Content[2].Value == "AWS::NoValue" {
			end()
			lists = append(lists, "local."+attributeName(part.Content[0].Value)+" ? ["+m.value(part.Content[1], of)+"] : []")
			continue
		}
		run = append(run, m.value(part, of))
	}
	end()
	switch len(lists) {
	case 0:
		return "[]"
	case 1:
		return lists[0]
	}
	return "concat(" + strings.Join(lists, ", ") + ")"
}

// call returns a function of CloudFormation as an expression.
func (m *module) call(name string, n *yaml.Node, kind any) string {
	switch name {
	case "Ref", "GetAtt":
		return m.ref(n.Value)
	case "Sub":
		return m.sub(n.Value)
	case "If":
		part := func(i int) string {
			if inner, _ := intrinsic(n.Content[i]); inner == "If" {
				return "(" + m.value(n.Content[i], kind) + ")"
			}
			return m.value(n.Content[i], kind)
		}
		return "local." + attributeName(n.Content[0].Value) + " ? " + part(1) + " : " + part(2)
	case "ImportValue":
		export, ok := strings.CutPrefix(field(n, "Fn::Sub").Value, "${ServicesStack}-")
		require.True(m.t, ok)
		return "var.services." + export
	case "FindInMap":
		return "local." + attributeName(n.Content[0].Value) + "[" + m.value(n.Content[1], "string") + "]." + attributeName(n.Content[2].Value)
	case "Select":
		return m.part(n.Content[0].Value, n.Content[1])
	}
	m.t.Fatalf("%s: Terraform has no %s", m.template, name)
	return ""
}

// part returns a part of a split text. A range has its ends.
func (m *module) part(at string, split *yaml.Node) string {
	_, argument := intrinsic(split)
	separator, text := argument.Content[0], argument.Content[1]
	if p, ok := m.parameters[text.Value]; ok && p.kind == isRange {
		return "var." + p.name + map[string]string{"0": ".min", "1": ".max"}[at]
	}
	return "split(" + m.value(separator, "string") + ", " + m.value(text, "string") + ")[" + at + "]"
}

// ref returns a reference to a parameter, a resource, or an attribute of a resource.
func (m *module) ref(name string) string {
	if name == "AWS::NoValue" {
		return "null"
	}
	if variable, ok := pseudoParameters()[name]; ok {
		m.pseudo[name] = true
		return "var." + variable
	}
	if p, ok := m.parameters[name]; ok {
		return p.text()
	}
	resource, attribute, isAttribute := strings.Cut(name, ".")
	kind := m.types[resource]
	require.NotEmptyf(m.t, kind, "%s: there is no %s", m.template, name)
	attribute = attributeName(attribute)
	if !isAttribute {
		attribute = references()[kind]
		require.NotEmptyf(m.t, attribute, "the attribute that equals the Ref of %s", kind)
	}
	index := ""
	if m.conditions[resource] != "" {
		index = "[0]"
	}
	return resourceType(kind) + "." + attributeName(resource) + index + "." + attribute
}

// sub returns the text of Fn::Sub: a text of several lines as a heredoc.
func (m *module) sub(text string) string {
	lines := strings.Contains(text, "\n")
	escaped := func(literal string) string {
		if lines {
			return strings.ReplaceAll(strings.ReplaceAll(literal, "${", "$${"), "%{", "%%{")
		}
		q := quoted(literal)
		return q[1 : len(q)-1]
	}
	var b strings.Builder
	last := 0
	for _, at := range subPart.FindAllStringIndex(text, -1) {
		b.WriteString(escaped(text[last:at[0]]) + "${" + m.ref(text[at[0]+2:at[1]-1]) + "}")
		last = at[1]
	}
	b.WriteString(escaped(text[last:]))
	if lines {
		return "<<EOT\n" + b.String() + "EOT\n"
	}
	return `"` + b.String() + `"`
}

// sortedKeys returns the keys of a set.
func sortedKeys(set map[string]bool) []string {
	var keys []string
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// writeLine formats a line of a file.
func writeLine(b *strings.Builder, format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
