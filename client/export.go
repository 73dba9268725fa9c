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

// Export writes all records of the caller to out as they arrive, each as a line of JSON. The token must
// be the user's own token. Export returns nil only if it has written all records. Once the answer has
// begun, the client does not repeat the call.
func (c *Client) Export(ctx context.Context, out io.Writer) error {
	return c.do(ctx, call{method: http.MethodGet, path: path("v1", "me", "export"), accept: "application/x-ndjson", lines: out}, nil)
}

// copyRecords copies all lines of an export except the last line. It checks the last line, which ends a
// complete export.
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
