package objects

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/awsclient"
)

// Location is the address of a store: s3://bucket/prefix or file:///directory.
type Location struct {
	// Bucket and Prefix are for S3. Prefix has no slash at its ends and may be empty.
	Bucket, Prefix string
	// Dir is the path of a directory, empty for S3.
	Dir string
}

// bucketName matches the names of buckets.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Parse reads an address of a store.
func Parse(text string) (Location, error) {
	wrong := func(fault string) (Location, error) {
		return Location{}, fmt.Errorf("%q %s: write s3://bucket/prefix or file:///directory", text, fault)
	}
	u, err := url.Parse(text)
	if err != nil {
		return wrong("is no URL")
	}
	if u.User != nil { // the text may have a password
		return Location{}, errors.New("it has credentials, which belong to the AWS SDK: write s3://bucket/prefix or file:///directory")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "" {
		return wrong("has more than a scheme, a bucket and a path")
	}
	switch u.Scheme {
	case "s3":
		prefix := strings.Trim(u.Path, "/")
		if !bucketName.MatchString(u.Host) {
			return wrong("needs the name of a bucket, which has 3 to 63 of a-z, 0-9, - and .")
		}
		if prefix != "" && !validName.MatchString(prefix) {
			return wrong("has a prefix that is no name of objects")
		}
		return Location{Bucket: u.Host, Prefix: prefix}, nil
	case "file":
		dir := path.Clean(u.Path)
		if u.Host != "" || !path.IsAbs(u.Path) || dir == "/" {
			return wrong("has no absolute path of a directory")
		}
		return Location{Dir: dir}, nil
	}
	return wrong("has an unknown scheme")
}

// Open opens the store at an address. For S3, region, endpoint and credentials come from the
// same places as for every AWS tool. Open makes no call to S3.
func (l Location) Open(ctx context.Context) (Store, error) {
	if l.Dir != "" {
		return OpenDirectory(vfs.Default, l.Dir)
	}
	return l.openBucket(ctx)
}

func (l Location) openBucket(ctx context.Context) (*Bucket, error) {
	cfg, err := awsclient.Load(ctx)
	if err != nil {
		return nil, err
	}
	return NewBucket(s3.NewFromConfig(cfg, ForEndpoint), l.Bucket, l.Prefix), nil
}
