package view

import (
	"slices"

	"fanfare/internal/page"
)

// Found is the answer to a question about several ids, in their order and each once. Missing are ids without
// an item, and ids of deleted posts. Rest are ids that do not fit into the answer.
type Found[T any] struct {
	Items         []T
	Missing, Rest []string
}

// found sorts ids into three lists: the ids of items, cut to fit into an answer; the ids that were cut off;
// and the ids without an item.
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

// once returns ids in their order, each once.
func once(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}
