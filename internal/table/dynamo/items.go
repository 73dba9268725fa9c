package dynamo

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fanfare/internal/table"
)

func encodeValue(v table.Value) types.AttributeValue {
	if v.Kind() == table.KindNumber {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(v.Int(), 10)}
	}
	return &types.AttributeValueMemberS{Value: v.Str()}
}

func encodeKey(k table.Key) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		table.AttrPK: &types.AttributeValueMemberS{Value: k.PK},
		table.AttrSK: &types.AttributeValueMemberS{Value: k.SK},
	}
}

func encodeItem(it table.Item) map[string]types.AttributeValue {
	out := make(map[string]types.AttributeValue, len(it.Attrs)+2)
	out[table.AttrPK] = &types.AttributeValueMemberS{Value: it.Key.PK}
	out[table.AttrSK] = &types.AttributeValueMemberS{Value: it.Key.SK}
	for _, a := range it.Attrs {
		out[a.Name] = encodeValue(a.Value)
	}
	return out
}

// decodeOptional decodes an item. A map without attributes stands for no item.
func decodeOptional(m map[string]types.AttributeValue) (*table.Item, error) {
	if len(m) == 0 {
		return nil, nil
	}
	it, err := decodeItem(m)
	if err != nil {
		return nil, err
	}
	return &it, nil
}

// decodeItem decodes an item and sorts its attributes by name. An attribute that is
// neither a string nor an integer is an error: another program wrote it.
func decodeItem(m map[string]types.AttributeValue) (table.Item, error) {
	it := table.Item{Attrs: make([]table.Attr, 0, max(0, len(m)-2))}
	for name, av := range m {
		v, err := decodeValue(av)
		if err != nil {
			return table.Item{}, fmt.Errorf("table: attribute %q of an item: %w", name, err)
		}
		switch name {
		case table.AttrPK:
			it.Key.PK = v.Str()
		case table.AttrSK:
			it.Key.SK = v.Str()
		default:
			it.Attrs = append(it.Attrs, table.Attr{Name: name, Value: v})
		}
	}
	slices.SortFunc(it.Attrs, func(a, b table.Attr) int { return cmp.Compare(a.Name, b.Name) })
	return it, nil
}

func decodeItems(ms []map[string]types.AttributeValue) ([]table.Item, error) {
	items := make([]table.Item, 0, len(ms))
	for _, m := range ms {
		it, err := decodeItem(m)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}

func decodeValue(av types.AttributeValue) (table.Value, error) {
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		return table.S(av.Value), nil
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(av.Value, 10, 64)
		if err != nil {
			return table.Value{}, fmt.Errorf("not an integer of 64 bits: %w", err)
		}
		return table.N(n), nil
	}
	return table.Value{}, fmt.Errorf("%T is neither a string nor a number", av)
}
