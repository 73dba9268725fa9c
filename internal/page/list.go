package page

// Request is a request for one page of a list.
type Request struct {
	// Limit is 1 to MaxLimit. 0 means DefaultLimit.
	Limit int
	// Cursor is the NextCursor of an earlier page, "" for the first page.
	Cursor string
}

// List is one page. NextCursor is "" on the last page. A page with a cursor may be short, and even
// empty, if the request found too many hidden items. A page is also short if one more item would make
// the page larger than 256 KiB of JSON.
type List[T any] struct {
	Items      []T
	NextCursor string
	// cursor returns the cursor that continues after an item.
	cursor func(T) string
}

// DefaultLimit is the size of a page if the request names no size. MaxLimit is the maximum size.
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
