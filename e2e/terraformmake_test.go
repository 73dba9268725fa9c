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
	// pseudo are the used pseudo parameters.
	pseudo map[string]bool
}

// anyJSON is the kind of the parts of a text of JSON.
const anyJSON = "json"

// pseudoParameters are the variables that replace pseudo parameters.
func pseudoParameters() map[string]string {
	return map[string]string{"AWS::Region": "region", "AWS::AccountId": "account", "AWS::Partition": "partition", "AWS::StackName": "name"}
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
	text, err := os.ReadFile("../deploy/cloudformation/" + template)
	require.NoError(t, err)
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &root))
	m := &module{
		t: t, template: template, sections: map[string]*yaml.Node{}, schema: providerSchema(t),
		types: map[string]string{}, conditions: map[string]string{}, pseudo: map[string]bool{},
	}
	for name, section := range pairs(root.Content[0]) {
		m.sections[name.Value] = section
	}
	for name, resource := range pairs(m.sections["Resources"]) {
		m.types[name.Value] = field(resource, "Type").Value
		if c := field(resource, "Condition"); c != nil {
			m.conditions[name.Value] = c.Value
		}
	}
	return m
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
	wordEnd = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronym = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	subPart = regexp.MustCompile(`\$\{[^}]*\}`)
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

// value returns a value as an expression. kind is the provider's type of the value.
func (m *module) value(n *yaml.Node, kind any) string {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && strings.HasPrefix(n.Content[0].Value, "Fn::") {
		return m.call(strings.TrimPrefix(n.Content[0].Value, "Fn::"), n.Content[1], kind)
	}
	if name, own := strings.CutPrefix(n.Tag, "!"); own && !strings.HasPrefix(name, "!") {
		return m.call(name, n, kind)
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
		name, of := quoted(key.Value), any("string")
		if isObject {
			name = attributeName(key.Value)
			of = attributes[name]
			require.NotNilf(m.t, of, "%s: the provider has no attribute %s", m.template, name)
		} else if kind == anyJSON {
			of = anyJSON
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
	part := func(i int) string { return m.value(n.Content[i], kind) }
	switch name {
	case "Ref":
		return m.ref(n.Value)
	case "Condition":
		return "local." + attributeName(n.Value)
	case "GetAtt":
		return m.ref(n.Value)
	case "Sub":
		return m.sub(n.Value)
	case "If":
		return "(local." + attributeName(n.Content[0].Value) + " ? " + part(1) + " : " + part(2) + ")"
	case "ImportValue":
		export, ok := strings.CutPrefix(field(n, "Fn::Sub").Value, "${ServicesStack}-")
		require.True(m.t, ok)
		return "var.services[" + quoted(export) + "]"
	case "FindInMap":
		return "local." + attributeName(n.Content[0].Value) + "[" + m.value(n.Content[1], "string") + "][" + m.value(n.Content[2], "string") + "]"
	case "Select":
		return m.value(n.Content[1], nil) + "[" + n.Content[0].Value + "]"
	case "Split":
		return "split(" + m.value(n.Content[0], "string") + ", " + m.value(n.Content[1], "string") + ")"
	case "Equals":
		return m.value(n.Content[0], "string") + " == " + m.value(n.Content[1], "string")
	case "Not":
		return "!(" + part(0) + ")"
	case "And", "Or":
		var all []string
		for i := range n.Content {
			all = append(all, "("+part(i)+")")
		}
		return strings.Join(all, map[string]string{"And": " && ", "Or": " || "}[name])
	case "EachMemberIn":
		return "alltrue([for part in " + m.value(n.Content[0], nil) + " : contains(" + m.value(n.Content[1], nil) + ", part)])"
	}
	m.t.Fatalf("%s: Terraform has no %s", m.template, name)
	return ""
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
	if field(m.sections["Parameters"], name) != nil {
		return "var." + attributeName(name)
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
