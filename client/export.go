package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Export writes all records of the caller to out, a line of JSON each, as they arrive. The token must
// be the user's own. It returns nil only if all records were written. Once the answer has begun, the
// call is not repeated.
func (c *Client) Export(ctx context.Context, out io.Writer) error {
	return c.do(ctx, call{method: http.MethodGet, path: path("v1", "me", "export"), accept: "application/x-ndjson", lines: out}, nil)
}

// copyRecords copies lines up to the last line of an export, which it checks and leaves
// out.
func copyRecords(out io.Writer, in io.Reader) error {
	lines := bufio.NewReader(in)
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the export ended after %d records, and is not whole: %w", n, err)
		}
		if bytes.HasPrefix(line, []byte(`{"type":"end"`)) {
			var end struct {
				Records *int `json:"records"`
			}
			if err := json.Unmarshal(line, &end); err != nil || end.Records == nil || *end.Records != n {
				return fmt.Errorf("the export has %d records, and its last line is %s", n, line)
			}
			return nil
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
}
