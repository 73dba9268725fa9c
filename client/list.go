package client

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// List is a paged list of the API. A List sends requests only when it is read.
type List[T any] struct {
	client *Client
	path   string
	query  url.Values
}

// Page is one page of a list. NextCursor is "" on the last page. Any page may have fewer items than the
// limit, or none.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"`
}

// Page reads one page of at most limit items (1..100; 0 is the service's default). The page begins at
// cursor, or at the beginning of the list if cursor is "".
func (l List[T]) Page(ctx context.Context, cursor string, limit int) (Page[T], error) {
	var page Page[T]
	err := l.client.do(ctx, call{method: http.MethodGet, path: l.path, query: paged(l.query, cursor, limit)}, &page)
	if err == nil && page.Items == nil {
		err = fmt.Errorf("client: %s: %w: the answer is not a list", l.path, errNoAnswer)
	}
	return page, err
}

// paged returns the query for one page.
func paged(of url.Values, cursor string, limit int) url.Values {
	query := make(url.Values, len(of)+2)
	maps.Copy(query, of)
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return query
}

// All iterates over the whole list, and reads a page of 100 items whenever the loop needs more. An error
// is yielded once and ends the loop.
func (l List[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			page, err := l.Page(ctx, cursor, 100)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = page.NextCursor; cursor == "" {
				return
			}
		}
	}
}

// Collect reads the whole list into memory. Use it for short lists.
func (l List[T]) Collect(ctx context.Context) ([]T, error) {
	var items []T
	for item, err := range l.All(ctx) {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return slices.Clip(items), nil
}
