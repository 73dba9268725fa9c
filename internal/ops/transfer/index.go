package transfer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// place names a line of a file.
type place struct {
	file string
	line int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// maxLine is the maximum length of a line, in bytes.
const maxLine = 1 << 20

// CheckFiles returns an error unless all files can be read more than once.
func CheckFiles(files []string) error {
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file: an import reads its files several times, so store the lines in a file first", name)
		}
	}
	return nil
}

// eachLine calls visit with each line of the files, in order. The bytes of a line are valid
// until visit returns. Empty lines are skipped.
func eachLine(ctx context.Context, files []string, visit func(at place, line []byte) error) error {
	for _, name := range files {
		if err := linesOf(ctx, name, visit); err != nil {
			return err
		}
	}
	return nil
}

func linesOf(ctx context.Context, name string, visit func(at place, line []byte) error) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	at := place{name, 0}
	for in.Scan() {
		at.line++
		if line := bytes.TrimSpace(in.Bytes()); len(line) > 0 {
			if err := visit(at, line); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s:%d: is longer than %d bytes: is it JSON lines?", name, at.line+1, maxLine)
	}
	return in.Err()
}

// InvalidError means that the files have faults, and that nothing was written.
type InvalidError struct {
	// Faults has the first faults, each with the file, the line and the field.
	Faults []string
	// Total is the number of all faults.
	Total int
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%d faults in the files, nothing was imported: mend them and run the command again", e.Total)
}

// maxFaults is the maximum number of faults in an error.
const maxFaults = 20

func (e *InvalidError) add(at place, f defect) {
	if e.Total++; e.Total > maxFaults {
		return
	}
	if f.field == "" {
		e.Faults = append(e.Faults, fmt.Sprintf("%s: %s", at, f.detail))
		return
	}
	e.Faults = append(e.Faults, fmt.Sprintf("%s: %s: %s", at, f.field, f.detail))
}

// hashed is the hash of an id in a line.
type hashed [16]byte

func hashOf(s string) hashed {
	sum := sha256.Sum256([]byte(s))
	return hashed(sum[:16])
}

// index has the part of the files that an import keeps in memory: about 100 bytes for each
// user, post and comment.
type index struct {
	now time.Time
	// users has the number of follows of each user in the files.
	users map[string]int64
	// posts has the new ids of posts, in packed form, by the posts' ids in the files.
	posts map[hashed]hashed
	// comments has the ids of the comments in the files.
	comments map[hashed]struct{}
	// mutes has the number of mutes of each user in the files. blocks has the pairs of users
	// with a block between them.
	mutes map[string]int
	// bookmarks and markers have the number of bookmarks and of markers of each user in the files.
	bookmarks, markers map[string]int
	blocks             map[hashed]struct{}
	counts             map[kind]int
}

// read checks all lines of the files. It also checks that each record that a line names is in the
// files or in the table. It writes nothing. If there are faults, the error is an *InvalidError.
func read(ctx context.Context, store table.Store, files []string, maxFollowing int64, now time.Time) (*index, error) {
	ix := &index{now: now, users: map[string]int64{}, posts: map[hashed]hashed{}, comments: map[hashed]struct{}{}, mutes: map[string]int{}, bookmarks: map[string]int{}, markers: map[string]int{}, blocks: map[hashed]struct{}{}, counts: map[kind]int{}}
	invalid := &InvalidError{}
	err := CheckFiles(files)
	if err != nil {
		return nil, err
	}
	err = eachLine(ctx, files, func(at place, line []byte) error {
		r, faults := parse(line, now)
		if len(faults) == 0 {
			ix.counts[r.Type]++
			faults = ix.define(&r)
		}
		for _, f := range faults {
			invalid.add(at, f)
		}
		return nil
	})
	if err == nil && invalid.Total == 0 && len(ix.counts) == 0 {
		err = errors.New("the files have no records: are they the right ones?")
	}
	if err == nil && invalid.Total == 0 {
		err = ix.checkNames(ctx, store, files, maxFollowing, invalid)
	}
	if err == nil && invalid.Total > 0 {
		err = invalid
	}
	return ix, err
}

// define adds a record's ids and counts to the index, and returns the faults of the record.
func (ix *index) define(r *record) (faults []defect) {
	again := defect{"id", fmt.Sprintf("%q is the id of an earlier %s", r.ID, r.Type)}
	switch r.Type {
	case kindUser:
		if _, there := ix.users[r.ID]; there {
			return []defect{again}
		}
		ix.users[r.ID] = 0
	case kindPost:
		if _, there := ix.posts[hashOf(r.ID)]; there {
			return []defect{again}
		}
		made, err := r.madeID()
		if err != nil {
			return []defect{{"time", err.Error()}}
		}
		ix.posts[hashOf(r.ID)] = hashed(id.Pack(made))
	case kindComment:
		if _, there := ix.comments[hashOf(r.ID)]; there {
			return []defect{again}
		}
		ix.comments[hashOf(r.ID)] = struct{}{}
	case kindMute:
		if ix.mutes[r.UserID]++; ix.mutes[r.UserID] == feed.MaxMutes+1 {
			return []defect{{"user_id", fmt.Sprintf("%s mutes more than %d users", r.UserID, feed.MaxMutes)}}
		}
	case kindBookmark:
		if ix.bookmarks[r.UserID]++; ix.bookmarks[r.UserID] == feed.MaxBookmarks+1 {
			return []defect{{"user_id", fmt.Sprintf("%s has more than %d bookmarks", r.UserID, feed.MaxBookmarks)}}
		}
	case kindMarker:
		if ix.markers[r.UserID]++; ix.markers[r.UserID] == feed.MaxMarkers+1 {
			return []defect{{"user_id", fmt.Sprintf("%s has more than %d markers", r.UserID, feed.MaxMarkers)}}
		}
	case kindBlock:
		ix.blocks[pairOf(r.UserID, r.OtherID)] = struct{}{}
	case kindFollow, kindLike: // these records have no id
	}
	return nil
}

// pairOf returns the same value for two users in either order.
func pairOf(a, b string) hashed { return hashOf(min(a, b) + " " + max(a, b)) }

// postID returns the new id of a post in the files. For any other post it returns the given id.
func (ix *index) postID(named string) string {
	if made, ok := ix.posts[hashOf(named)]; ok {
		return id.Unpack(made[:])
	}
	return named
}

// name is a field that names another record.
type name struct{ field, value string }

// names returns the names of the users and of the post that must exist for the record.
func (r *record) names() (users []name, post name) {
	switch r.Type {
	case kindFollow:
		return []name{{"follower_id", r.FollowerID}, {"author_id", r.AuthorID}}, name{}
	case kindMute, kindBlock, kindMarker:
		return []name{{"user_id", r.UserID}}, name{} // the other user may have been removed
	case kindPost:
		return []name{{"author_id", r.AuthorID}}, name{}
	case kindComment:
		return []name{{"author_id", r.AuthorID}}, name{"post_id", r.PostID}
	case kindLike, kindBookmark:
		return []name{{"user_id", r.UserID}}, name{"post_id", r.PostID}
	case kindUser:
	}
	return nil, name{}
}

// asked is the first line that names a certain record outside of the files.
type asked struct {
	at    place
	field string
}

// checkNames checks that all records that lines need are in the files or in the table.
func (ix *index) checkNames(ctx context.Context, store table.Store, files []string, maxFollowing int64, invalid *InvalidError) error {
	outside, followers := map[table.Key]asked{}, map[string]struct{}{}
	err := eachLine(ctx, files, func(at place, line []byte) error {
		r, faults := parse(line, ix.now)
		if len(faults) > 0 {
			return fmt.Errorf("%s has changed while it was read", at)
		}
		users, post := r.names()
		for _, u := range users {
			if _, there := ix.users[u.value]; !there {
				ask(outside, schema.ProfileKey(u.value), at, u.field)
			}
		}
		if post.field != "" {
			if _, there := ix.posts[hashOf(post.value)]; !there {
				if !id.Valid(post.value) {
					invalid.add(at, defect{post.field, fmt.Sprintf("%q is not the id of a post of the files", post.value)})
					return nil
				}
				ask(outside, schema.PostByIDKey(post.value), at, post.field)
			}
		}
		if _, between := ix.blocks[pairOf(r.FollowerID, r.AuthorID)]; between && r.Type == kindFollow {
			invalid.add(at, defect{"author_id", fmt.Sprintf("there is a block between %s and %s in the files", r.FollowerID, r.AuthorID)})
		}
		if r.Type == kindFollow {
			followers[r.FollowerID] = struct{}{}
		}
		if _, there := ix.users[r.FollowerID]; there {
			if ix.users[r.FollowerID]++; maxFollowing > 0 && ix.users[r.FollowerID] == maxFollowing+1 {
				invalid.add(at, defect{"follower_id", fmt.Sprintf("%s follows more than %d users, the most of FANFARE_MAX_FOLLOWING", r.FollowerID, maxFollowing)})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := findOutside(ctx, store, outside, invalid); err != nil {
		return err
	}
	return ix.findBlocks(ctx, store, files, followers, invalid)
}

// findBlocks finds follows in the files between users with a block in the table.
func (ix *index) findBlocks(ctx context.Context, store table.Store, files []string, followers map[string]struct{}, invalid *InvalidError) error {
	notes := make([]table.Key, 0, len(followers))
	for f := range followers {
		notes = append(notes, schema.HasBlocksKey(f))
	}
	noted := map[string]struct{}{} // the partitions of users who may have blocks
	found := func(key table.Key) { noted[key.PK] = struct{}{} }
	if err := present(ctx, store, notes, found); err != nil || len(noted) == 0 {
		return err
	}
	at := map[table.Key]place{}
	look := func() error {
		err := present(ctx, store, slices.Collect(maps.Keys(at)), func(key table.Key) {
			invalid.add(at[key], defect{"author_id", "there is a block between the two users in the table"})
		})
		clear(at)
		return err
	}
	err := eachLine(ctx, files, func(line place, text []byte) error {
		r, _ := parse(text, ix.now) // the faults of this line are checked already
		if _, may := noted[schema.UserPK(r.FollowerID)]; r.Type != kindFollow || !may {
			return nil
		}
		if at[schema.BlockKey(r.FollowerID, r.AuthorID)] = line; len(at) < table.MaxBatchGet {
			return nil
		}
		return look()
	})
	return errors.Join(err, look())
}

// present calls found with each key whose item is in the table.
func present(ctx context.Context, store table.Store, keys []table.Key, found func(table.Key)) error {
	for part := range slices.Chunk(keys, table.MaxBatchGet) {
		res, err := store.BatchGet(ctx, table.BatchGetInput{Keys: part, Consistent: true, Project: []string{}})
		if err != nil {
			return fmt.Errorf("look for records that the files name: %w", err)
		}
		for _, it := range res.Items {
			found(it.Key)
		}
	}
	return nil
}

func ask(outside map[table.Key]asked, key table.Key, at place, field string) {
	if _, there := outside[key]; !there {
		outside[key] = asked{at, field}
	}
}

// findOutside checks that the records outside of the files are in the table.
func findOutside(ctx context.Context, store table.Store, outside map[table.Key]asked, invalid *InvalidError) error {
	found := func(key table.Key) { delete(outside, key) }
	if err := present(ctx, store, sortedKeys(outside), found); err != nil {
		return err
	}
	missing := slices.SortedFunc(maps.Keys(outside), func(a, b table.Key) int {
		return strings.Compare(outside[a].at.file, outside[b].at.file)*2 + compare(outside[a].at.line, outside[b].at.line)
	})
	for _, key := range missing {
		what := "user " + strings.TrimPrefix(key.PK, "u#")
		if post, ok := schema.PostOfSK(key.PK); ok {
			what = "post " + post
		}
		invalid.add(outside[key].at, defect{outside[key].field, what + " is neither in the files nor in the table"})
	}
	return nil
}

func compare(a, b int) int { return min(1, max(-1, a-b)) }

// shown reports whether homes will show a post for longer than the time rest.
func (im *importer) shown(ctx context.Context, post string, rest time.Duration) (bool, error) {
	lives, err := im.lives.Current(ctx)
	return post >= id.Floor(lives.Oldest(im.cfg.Now().Add(rest))), err
}
