package view

import (
	"slices"

	"fanfare/internal/page"
)

// Found is the answer to a request for several ids. Items has the found items in the order of the ids,
// each id once. Missing are the ids without an item, and the ids of deleted posts. Rest are the ids
// whose items do not fit into the answer.
type Found[T any] struct {
	Items         []T
	Missing, Rest []string
}

// found sorts ids into three lists: the ids of the items that fit into an answer; the ids of the items
// that do not fit; and the ids without an item.
func found[T any](ids []string, items []T, id func(T) string) Found[T] {
	n := page.Fitting(items)
	out := Found[T]{Items: items[:n]}
	for _, item := range items[n:] {
		out.Rest = append(out.Rest, id(item))
	}
	there := map[string]bool{}
	for _, item := range items {
		there[id(item)] = true
	}
	out.Missing = slices.DeleteFunc(once(ids), func(id string) bool { return there[id] })
	return out
}

// once returns ids in their order, without repetitions.
func once(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}
