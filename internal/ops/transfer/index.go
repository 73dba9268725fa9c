package transfer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

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

// filed is a post of the files: its new id in packed form, and its line.
type filed struct {
	made hashed
	at   place
}

// index has the part of the files that an import keeps in memory: about 100 bytes for each
// user, post and comment.
type index struct {
	now time.Time
	// users has the number of follows of each user in the files.
	users map[string]int64
	// posts has the posts of the files by their ids in the files.
	posts map[hashed]filed
	// reposts has the ids of the reposts in the files.
	reposts map[hashed]struct{}
	// comments has the ids of the comments in the files.
	comments map[hashed]struct{}
	// blocks has the pairs of users with a block between them.
	blocks map[hashed]struct{}
	// owned has the numbers of records of the kinds with a maximum, by kind and user.
	owned  map[kind]map[string]int
	counts map[kind]int
}

// read checks all lines of the files. It also checks that each record that a line names is in the
// files or in the table. It writes nothing. If there are faults, the error is an *InvalidError.
func read(ctx context.Context, store table.Store, files []string, maxFollowing int64, now time.Time) (*index, error) {
	ix := &index{now: now, users: map[string]int64{}, posts: map[hashed]filed{}, reposts: map[hashed]struct{}{}, comments: map[hashed]struct{}{}, blocks: map[hashed]struct{}{}, owned: map[kind]map[string]int{}, counts: map[kind]int{}}
	invalid := &InvalidError{}
	err := CheckFiles(files)
	if err != nil {
		return nil, err
	}
	err = eachLine(ctx, files, func(at place, line []byte) error {
		r, faults := parse(line, now)
		if len(faults) == 0 {
			ix.counts[r.Type]++
			faults = ix.define(at, &r)
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
func (ix *index) define(at place, r *record) []defect {
	spec := r.Type.spec()
	if spec.most > 0 {
		if ix.owned[r.Type] == nil {
			ix.owned[r.Type] = map[string]int{}
		}
		if ix.owned[r.Type][r.UserID]++; ix.owned[r.Type][r.UserID] == spec.most+1 {
			return []defect{{"user_id", fmt.Sprintf(spec.over, r.UserID, spec.most)}}
		}
	}
	if spec.define == nil {
		return nil
	}
	return spec.define(ix, at, r)
}

// again is the fault of a record with the id of an earlier record.
func (r *record) again(earlier kind) []defect {
	return []defect{{"id", fmt.Sprintf("%q is the id of an earlier %s", r.ID, earlier)}}
}

func (ix *index) user(_ place, r *record) []defect {
	if _, there := ix.users[r.ID]; there {
		return r.again(r.Type)
	}
	ix.users[r.ID] = 0
	return nil
}

func (ix *index) post(at place, r *record) []defect {
	made, bad := ix.ofPost(r)
	if bad == nil {
		ix.posts[hashOf(r.ID)] = filed{hashed(id.Pack(made)), at}
	}
	return bad
}

func (ix *index) repost(_ place, r *record) []defect {
	_, bad := ix.ofPost(r)
	if bad == nil {
		ix.reposts[hashOf(r.ID)] = struct{}{}
	}
	return bad
}

// ofPost returns the new id of a post or a repost, unless an earlier line has its id.
func (ix *index) ofPost(r *record) (made string, bad []defect) {
	if _, there := ix.posts[hashOf(r.ID)]; there {
		return "", r.again(kindPost)
	}
	if _, there := ix.reposts[hashOf(r.ID)]; there {
		return "", r.again(kindRepost)
	}
	made, err := r.madeID()
	if err != nil {
		return "", []defect{{"time", err.Error()}}
	}
	return made, nil
}

func (ix *index) comment(_ place, r *record) []defect {
	if _, there := ix.comments[hashOf(r.ID)]; there {
		return r.again(r.Type)
	}
	ix.comments[hashOf(r.ID)] = struct{}{}
	return nil
}

func (ix *index) block(_ place, r *record) []defect {
	ix.blocks[pairOf(r.UserID, r.OtherID)] = struct{}{}
	return nil
}

// pairOf returns the same value for two users in either order.
func pairOf(a, b string) hashed { return hashOf(min(a, b) + " " + max(a, b)) }

// postID returns the new id of a post in the files. For any other post it returns the given id.
func (ix *index) postID(named string) string {
	if post, ok := ix.posts[hashOf(named)]; ok {
		return id.Unpack(post.made[:])
	}
	return named
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
		for _, name := range r.Type.spec().required {
			v, _ := r.value(name)
			switch fields[name].names {
			case "user":
				if _, there := ix.users[v.String()]; !there {
					ask(outside, schema.ProfileKey(v.String()), at, name)
				}
			case "post":
				ix.names(v.String(), asked{at, name}, outside, invalid)
			}
		}
		if r.QuoteOf != "" {
			ix.names(r.QuoteOf, asked{at, "quote_of"}, outside, invalid)
		}
		made, err := r.madeID()
		if of := ix.postID(r.PostID); r.Type == kindRepost && err == nil && id.Valid(of) && made <= of {
			invalid.add(at, defect{"time", "is not after the time of the reposted post"})
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

// names checks that a post that a line names is in the files, or asks for the post.
func (ix *index) names(post string, by asked, outside map[table.Key]asked, invalid *InvalidError) {
	if _, there := ix.posts[hashOf(post)]; there {
		return
	}
	_, repost := ix.reposts[hashOf(post)]
	switch {
	case repost:
		invalid.add(by.at, defect{by.field, isRepost(post)})
	case !id.Valid(post):
		invalid.add(by.at, defect{by.field, fmt.Sprintf("%q is not the id of a post of the files", post)})
	default:
		ask(outside, schema.PostByIDKey(post), by.at, by.field)
	}
}

func isRepost(post string) string { return fmt.Sprintf("%q is a repost: name its original", post) }

// findBlocks finds follows in the files between users with a block in the table.
func (ix *index) findBlocks(ctx context.Context, store table.Store, files []string, followers map[string]struct{}, invalid *InvalidError) error {
	notes := make([]table.Key, 0, len(followers))
	for f := range followers {
		notes = append(notes, schema.HasBlocksKey(f))
	}
	noted := map[string]struct{}{} // the partitions of users who may have blocks
	found := func(it table.Item) { noted[it.Key.PK] = struct{}{} }
	if err := present(ctx, store, notes, found); err != nil || len(noted) == 0 {
		return err
	}
	at := map[table.Key]place{}
	look := func() error {
		err := present(ctx, store, slices.Collect(maps.Keys(at)), func(it table.Item) {
			invalid.add(at[it.Key], defect{"author_id", "there is a block between the two users in the table"})
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

// present calls found with each item that is in the table. The item has at most the original of a repost.
func present(ctx context.Context, store table.Store, keys []table.Key, found func(table.Item)) error {
	for part := range slices.Chunk(keys, table.MaxBatchGet) {
		res, err := store.BatchGet(ctx, table.BatchGetInput{Keys: part, Consistent: true, Project: []string{schema.AttrRepostOf}})
		if err != nil {
			return fmt.Errorf("look for records that the files name: %w", err)
		}
		for _, it := range res.Items {
			found(it)
		}
	}
	return nil
}

func ask(outside map[table.Key]asked, key table.Key, at place, field string) {
	if _, there := outside[key]; !there {
		outside[key] = asked{at, field}
	}
}

// findOutside checks that the records outside of the files are in the table. A quoted post may be missing, because it may
// be gone since the quote.
func findOutside(ctx context.Context, store table.Store, outside map[table.Key]asked, invalid *InvalidError) error {
	found := func(it table.Item) {
		if by := outside[it.Key]; it.Str(schema.AttrRepostOf) != "" {
			post, _ := schema.PostOfSK(it.Key.PK)
			invalid.add(by.at, defect{by.field, isRepost(post)})
		}
		delete(outside, it.Key)
	}
	if err := present(ctx, store, sortedKeys(outside), found); err != nil {
		return err
	}
	missing := slices.SortedFunc(maps.Keys(outside), func(a, b table.Key) int {
		return strings.Compare(outside[a].at.file, outside[b].at.file)*2 + cmp.Compare(outside[a].at.line, outside[b].at.line)
	})
	for _, key := range missing {
		if outside[key].field == "quote_of" {
			continue
		}
		what := "user " + strings.TrimPrefix(key.PK, "u#")
		if post, ok := schema.PostOfSK(key.PK); ok {
			what = "post " + post
		}
		invalid.add(outside[key].at, defect{outside[key].field, what + " is neither in the files nor in the table"})
	}
	return nil
}

// shown reports whether homes will show a post for longer than the time rest.
func (im *importer) shown(ctx context.Context, post string, rest time.Duration) (bool, error) {
	lives, err := im.lives.Current(ctx)
	return post >= id.Floor(lives.Oldest(im.cfg.Now().Add(rest))), err
}
