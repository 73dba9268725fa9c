package e2e

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
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
	all  []*hclsyntax.Block
	eval *hcl.EvalContext
}

// parseTerraform parses the files of a folder.
func parseTerraform(t *testing.T, folder string) terraform {
	t.Helper()
	m := terraform{t: t, eval: &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: functions()}}
	files, err := filepath.Glob(filepath.Join(folder, "*.tf"))
	require.NoError(t, err)
	require.NotEmpty(t, files, folder)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		file, faults := hclparse.NewParser().ParseHCL(text, name)
		require.False(t, faults.HasErrors(), faults)
		m.all = append(m.all, file.Body.(*hclsyntax.Body).Blocks...)
	}
	return m
}

// readTerraform parses the module that was made from stack, and sets its variables to the stack's values.
func readTerraform(t *testing.T, template string, stack template) terraform {
	t.Helper()
	m := parseTerraform(t, terraformFolder(template))
	m.setVariables(newModule(t, template).parameters, stack)
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
		"contains": stdlib.ContainsFunc, "can": tryfunc.CanFunc, "floor": stdlib.FloorFunc, "length": stdlib.LengthFunc,
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
	return slices.DeleteFunc(slices.Clone(m.all), func(b *hclsyntax.Block) bool { return b.Type != kind })
}

func (m terraform) value(e hcl.Expression) cty.Value {
	v, faults := e.Value(m.eval)
	require.False(m.t, faults.HasErrors(), faults)
	return v
}

// setVariables sets each variable to the value of its parameter, with the variable's type.
func (m terraform) setVariables(parameters map[string]variable, stack template) {
	values := map[string]cty.Value{}
	for pseudo, name := range pseudoParameters() {
		values[name] = cty.StringVal(stack.values[pseudo].(string))
	}
	for name, v := range parameters {
		values[v.name] = v.typed(m.t, stack.values[name])
	}
	for _, block := range m.blocks("variable") {
		require.Contains(m.t, values, block.Labels[0], "the variable is no parameter")
	}
	m.eval.Variables["var"] = cty.ObjectVal(values)
}

// typed returns a value of the parameter as a value of the variable.
func (v variable) typed(t *testing.T, value any) cty.Value {
	t.Helper()
	if list, ok := value.([]any); ok { // a list of one empty text is a list without parts
		parts := []cty.Value{}
		for _, part := range list {
			if part != "" {
				parts = append(parts, cty.StringVal(part.(string)))
			}
		}
		if len(parts) == 0 {
			return cty.ListValEmpty(cty.String)
		}
		return cty.ListVal(parts)
	}
	text, ok := value.(string)
	require.True(t, ok, v.name)
	number := func(text string) cty.Value {
		n, err := cty.ParseNumberVal(text)
		require.NoError(t, err)
		return n
	}
	switch v.kind {
	case isNumber:
		return number(text)
	case isBool, isSwitch:
		return cty.BoolVal(text == "true" || text == "ENABLED")
	case isRange:
		low, high, _ := strings.Cut(text, "-")
		of := cty.ObjectVal(map[string]cty.Value{"min": number(low), "max": number(high)})
		if text == v.fallback() {
			return cty.NullVal(of.Type())
		}
		return of
	case isServices:
		names := map[string]cty.Value{"name": cty.StringVal(text)}
		for _, service := range []string{"cluster", "api", "fanout", "likeagg"} {
			names[service] = cty.StringVal(text + "-" + service)
		}
		if text == "" {
			return cty.NullVal(cty.ObjectVal(names).Type())
		}
		return cty.ObjectVal(names)
	}
	return cty.StringVal(text)
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
