package page

// Request asks for one page of a list.
type Request struct {
	// Limit is 1 to MaxLimit; 0 is DefaultLimit.
	Limit int
	// Cursor is a former page's NextCursor, "" for the first page.
	Cursor string
}

// List is one page. NextCursor is "" on the last page. A page that has a cursor may be
// short, and even empty, if the request met too much that must not show, and it is short
// where one more item would make more than 256 KiB of JSON.
type List[T any] struct {
	Items      []T
	NextCursor string
	// cursor returns the cursor that continues behind an item.
	cursor func(T) string
}

// DefaultLimit and MaxLimit are the sizes of a page.
const (
	DefaultLimit = 20
	MaxLimit     = 100
)

// Size returns the size of the requested page.
func (p Request) Size() int {
	if p.Limit <= 0 {
		return DefaultLimit
	}
	return min(p.Limit, MaxLimit)
}
