//go:build !unix

package awsclient

// peek cannot look at a socket here.
func (c *conn) peek(uintptr) bool {
	c.peeked = true
	return true
}
