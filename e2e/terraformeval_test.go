package e2e

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// terraform is a module of Terraform with values for its variables. It evaluates expressions as Terraform does. A
// reference to a resource has the value that package template gives the reference in the template.
type terraform struct {
	t    *testing.T
	body *hclsyntax.Body
	eval *hcl.EvalContext
}

// readTerraform parses a module that was made from stack, and sets its variables to the stack's values.
func readTerraform(t *testing.T, path string, stack template) terraform {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	file, faults := hclparse.NewParser().ParseHCL(text, path)
	require.False(t, faults.HasErrors(), faults)
	m := terraform{t: t, body: file.Body.(*hclsyntax.Body), eval: &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: functions()}}
	m.setVariables(stack)
	m.eval.Variables["local"] = cty.EmptyObjectVal
	for _, block := range m.blocks("locals") {
		locals := map[string]cty.Value{}
		for _, a := range inOrder(block.Body.Attributes) {
			locals[a.Name] = m.value(a.Expr)
			m.eval.Variables["local"] = cty.ObjectVal(locals)
		}
	}
	m.setReferences(stack)
	return m
}

// functions returns the functions of Terraform that the modules call.
func functions() map[string]function.Function {
	return map[string]function.Function{
		"split": stdlib.SplitFunc, "jsonencode": stdlib.JSONEncodeFunc, "concat": stdlib.ConcatFunc, "regex": stdlib.RegexFunc,
		"contains": stdlib.ContainsFunc, "can": tryfunc.CanFunc,
		"alltrue": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}}, Type: function.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				return cty.BoolVal(!slices.ContainsFunc(args[0].AsValueSlice(), cty.Value.False)), nil
			},
		}),
	}
}

func inOrder(attributes hclsyntax.Attributes) []*hclsyntax.Attribute {
	var all []*hclsyntax.Attribute
	for _, a := range attributes {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *hclsyntax.Attribute) int { return cmp.Compare(a.SrcRange.Start.Line, b.SrcRange.Start.Line) })
	return all
}

func (m terraform) blocks(kind string) []*hclsyntax.Block {
	return slices.DeleteFunc(slices.Clone(m.body.Blocks), func(b *hclsyntax.Block) bool { return b.Type != kind })
}

func (m terraform) value(e hcl.Expression) cty.Value {
	v, faults := e.Value(m.eval)
	require.False(m.t, faults.HasErrors(), faults)
	return v
}

// setVariables sets each variable to the value of its parameter. A list of one empty text is a list without parts.
func (m terraform) setVariables(stack template) {
	values := map[string]cty.Value{"services": cty.EmptyObjectVal}
	for pseudo, name := range pseudoParameters() {
		values[name] = cty.StringVal(stack.values[pseudo].(string))
	}
	if name, ok := stack.values["ServicesStack"]; ok {
		exports := map[string]cty.Value{}
		for _, service := range []string{"cluster", "api", "fanout", "likeagg"} {
			exports[service] = cty.StringVal(name.(string) + "-" + service)
		}
		values["services"] = cty.ObjectVal(exports)
	}
	for name := range stack.section("Parameters") {
		switch v := stack.values[name].(type) {
		case string:
			values[attributeName(name)] = cty.StringVal(v)
		case []any:
			parts := cty.ListValEmpty(cty.String)
			if len(v) > 1 || v[0] != "" {
				var all []cty.Value
				for _, part := range v {
					all = append(all, cty.StringVal(part.(string)))
				}
				parts = cty.ListVal(all)
			}
			values[attributeName(name)] = parts
		}
	}
	for _, block := range m.blocks("variable") {
		value, set := values[block.Labels[0]]
		require.Truef(m.t, set, "variable %s is no parameter", block.Labels[0])
		if kind := block.Body.Attributes["type"]; kind.Expr.Variables()[0].RootName() == "number" {
			if number, err := convert.Convert(value, cty.Number); err == nil {
				values[block.Labels[0]] = number
			}
		}
	}
	m.eval.Variables["var"] = cty.ObjectVal(values)
}

// setReferences gives each attribute of a resource, to which another resource may refer, the value of the reference in
// the template.
func (m terraform) setReferences(stack template) {
	byType := map[string]map[string]cty.Value{}
	for name, r := range stack.section("Resources") {
		resource := r.(map[string]any)
		attributes := map[string]cty.Value{"arn": cty.StringVal(name + ".Arn"), "name": cty.StringVal(name + ".Name")}
		if ref, ok := references()[resource["Type"].(string)]; ok {
			attributes[ref] = cty.StringVal(name)
		}
		value := cty.ObjectVal(attributes)
		if resource["Condition"] != nil {
			value = cty.TupleVal([]cty.Value{value})
		}
		kind := resourceType(resource["Type"].(string))
		if byType[kind] == nil {
			byType[kind] = map[string]cty.Value{}
		}
		byType[kind][attributeName(name)] = value
	}
	for kind, all := range byType {
		m.eval.Variables[kind] = cty.ObjectVal(all)
	}
}

// refusal returns the message of the first rule that refuses the values of the variables, "" for none.
func (m terraform) refusal() string {
	check := func(rules hclsyntax.Blocks) string {
		for _, rule := range rules {
			if m.value(rule.Body.Attributes["condition"].Expr).False() {
				return m.value(rule.Body.Attributes["error_message"].Expr).AsString()
			}
		}
		return ""
	}
	for _, variable := range m.blocks("variable") {
		if why := check(variable.Body.Blocks); why != "" {
			return why
		}
	}
	for _, resource := range m.blocks("resource") {
		if resource.Labels[0] != "terraform_data" {
			continue
		}
		if why := check(resource.Body.Blocks[0].Body.Blocks); why != "" {
			return why
		}
	}
	return ""
}

// resources returns the attributes of each resource whose count is not 0, with texts as scalars. The key is the type
// and the label. The attribute prevent_destroy is the resource's lifecycle.
func (m terraform) resources() map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, block := range m.blocks("resource") {
		if block.Labels[0] == "terraform_data" {
			continue
		}
		if count := block.Body.Attributes["count"]; count != nil && m.value(count.Expr).RawEquals(cty.Zero) {
			continue
		}
		attributes := map[string]any{}
		for name, a := range block.Body.Attributes {
			if name == "count" || name == "depends_on" {
				continue
			}
			if v := plain(m.t, m.value(a.Expr)); v != nil {
				attributes[name] = v
			}
		}
		if needs := block.Body.Attributes["depends_on"]; needs != nil {
			var on []any
			for _, need := range needs.Expr.Variables() {
				on = append(on, need.RootName()+"."+need[1].(hcl.TraverseAttr).Name)
			}
			attributes["depends_on"] = on
		}
		for _, lifecycle := range block.Body.Blocks {
			require.Equal(m.t, "lifecycle", lifecycle.Type)
			attributes["prevent_destroy"] = plain(m.t, m.value(lifecycle.Body.Attributes["prevent_destroy"].Expr))
		}
		all[strings.Join(block.Labels, ".")] = attributes
	}
	return all
}

// plain returns a value with texts as scalars, nil for null. Attributes that are null are absent.
func plain(t *testing.T, v cty.Value) any {
	t.Helper()
	switch {
	case v.IsNull():
		return nil
	case v.Type().IsObjectType() || v.Type().IsMapType():
		m := map[string]any{}
		for name, part := range v.AsValueMap() {
			if part := plain(t, part); part != nil {
				m[name] = part
			}
		}
		return m
	case v.Type().IsTupleType() || v.Type().IsListType():
		l := []any{}
		for _, part := range v.AsValueSlice() {
			require.False(t, part.IsNull(), "a list has a part that is null")
			l = append(l, plain(t, part))
		}
		return l
	}
	text, err := convert.Convert(v, cty.String)
	require.NoError(t, err)
	return text.AsString()
}

// parsed returns a text of JSON as values with texts as scalars.
func parsed(t *testing.T, text any) any {
	t.Helper()
	s, ok := text.(string)
	require.Truef(t, ok, "%v is no text of JSON", text)
	decoder := json.NewDecoder(strings.NewReader(s))
	decoder.UseNumber()
	var v any
	require.NoError(t, decoder.Decode(&v))
	return texts(v)
}
