package plain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/internal/id"
)

// These are the keys of Redis: hashes of users and posts, a set of followers for each author, a set of
// likers for each post, and a sorted set for each home.
const (
	userPrefix      = "u:"
	postPrefix      = "p:"
	followersPrefix = "f:"
	likersPrefix    = "l:"
	homePrefix      = "h:"
)

// likeScript counts each user once, because Redis runs nothing else during a script.
const likeScript = `
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then redis.call('HINCRBY', KEYS[1], 'likes', 1) end
return 1`

type onRedis struct {
	db        *redis.Client
	ids       *id.Generator
	countLike *redis.Script
}

// OnRedis returns the application on a Redis.
func OnRedis(db *redis.Client) http.Handler {
	a := &onRedis{db, id.NewGenerator(time.Now), redis.NewScript(likeScript)}
	mux := newMux()
	mux.HandleFunc("POST /v1/posts", func(w http.ResponseWriter, r *http.Request) {
		p, err := a.post(r)
		reply(w, http.StatusCreated, p, err)
	})
	mux.HandleFunc("GET /v1/home", func(w http.ResponseWriter, r *http.Request) {
		h, err := a.home(r)
		reply(w, http.StatusOK, h, err)
	})
	mux.HandleFunc("PUT /v1/posts/{id}/like", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusAccepted, struct{}{}, a.like(r))
	})
	mux.HandleFunc("GET /v1/posts/{id}/likes/count", func(w http.ResponseWriter, r *http.Request) {
		n, err := a.db.HGet(r.Context(), postPrefix+r.PathValue("id"), "likes").Int64()
		if errors.Is(err, redis.Nil) {
			err = errAbsent
		}
		reply(w, http.StatusOK, likeCount{n}, err)
	})
	return mux
}

// post writes the post and adds the post to all homes. Then it answers.
func (a *onRedis) post(r *http.Request) (post, error) {
	p, err := newPost(r, a.ids)
	if err != nil {
		return p, err
	}
	followers, err := a.db.SMembers(r.Context(), followersPrefix+p.AuthorID).Result()
	if err != nil {
		return p, fmt.Errorf("read the followers: %w", err)
	}
	_, err = a.db.Pipelined(r.Context(), func(pipe redis.Pipeliner) error {
		pipe.HSet(r.Context(), postPrefix+p.ID, "author", p.AuthorID, "text", p.Text, "at", p.CreatedAt.UnixMilli(), "likes", 0)
		entry := redis.Z{Score: float64(p.CreatedAt.UnixMilli()), Member: p.ID}
		pipe.ZAdd(r.Context(), homePrefix+p.AuthorID, entry)
		for _, f := range followers {
			pipe.ZAdd(r.Context(), homePrefix+f, entry)
		}
		return nil
	})
	if err != nil {
		return p, fmt.Errorf("write the post: %w", err)
	}
	return p, nil
}

// home reads a page in three round trips: the ids, then the posts with their likes, then the authors.
func (a *onRedis) home(r *http.Request) (home, error) {
	ctx, reader := r.Context(), caller(r)
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		limit = 20
	}
	ids, err := a.db.ZRangeArgs(ctx, redis.ZRangeArgs{Key: homePrefix + reader, Start: 0, Stop: limit - 1, Rev: true}).Result()
	if err != nil {
		return home{}, fmt.Errorf("read the home: %w", err)
	}
	posts, liked := make([]*redis.MapStringStringCmd, len(ids)), make([]*redis.BoolCmd, len(ids))
	_, err = a.db.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			posts[i] = pipe.HGetAll(ctx, postPrefix+id)
			liked[i] = pipe.SIsMember(ctx, likersPrefix+id, reader)
		}
		return nil
	})
	if err != nil {
		return home{}, fmt.Errorf("read the posts: %w", err)
	}
	names, err := a.names(ctx, posts)
	if err != nil {
		return home{}, err
	}
	h := home{Items: make([]homeItem, 0, len(ids))}
	for i, id := range ids {
		p := posts[i].Val()
		at, err := strconv.ParseInt(p["at"], 10, 64)
		if err != nil {
			return home{}, fmt.Errorf("post %s: %w", id, err)
		}
		likes, err := strconv.ParseInt(p["likes"], 10, 64)
		if err != nil {
			return home{}, fmt.Errorf("post %s: %w", id, err)
		}
		h.Items = append(h.Items, homeItem{
			Post:      post{ID: id, AuthorID: p["author"], Text: p["text"], CreatedAt: time.UnixMilli(at).UTC()},
			Author:    author{ID: p["author"], Name: names[p["author"]].Val()},
			LikeCount: likes, Liked: liked[i].Val(),
		})
	}
	return h, nil
}

// names reads the name of each author once.
func (a *onRedis) names(ctx context.Context, posts []*redis.MapStringStringCmd) (map[string]*redis.StringCmd, error) {
	names := make(map[string]*redis.StringCmd, len(posts))
	_, err := a.db.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, p := range posts {
			if author := p.Val()["author"]; names[author] == nil {
				names[author] = pipe.HGet(ctx, userPrefix+author, "name")
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the authors: %w", err)
	}
	return names, nil
}

func (a *onRedis) like(r *http.Request) error {
	post := r.PathValue("id")
	n, err := a.countLike.Run(r.Context(), a.db, []string{postPrefix + post, likersPrefix + post}, caller(r)).Int()
	switch {
	case err != nil:
		return fmt.Errorf("count the like: %w", err)
	case n < 0:
		return errAbsent
	}
	return nil
}

// LoadRedis fills an empty Redis with users and their followers.
func LoadRedis(ctx context.Context, db *redis.Client, users []string, follows func(yield func(follower, author string) bool)) error {
	const batch = 1000
	pipe := db.Pipeline()
	var failed error
	flush := func(least int) bool {
		if failed == nil && pipe.Len() >= least {
			_, failed = pipe.Exec(ctx)
		}
		return failed == nil
	}
	for _, u := range users {
		pipe.HSet(ctx, userPrefix+u, "name", "User "+u)
		if !flush(batch) {
			break
		}
	}
	follows(func(follower, author string) bool {
		pipe.SAdd(ctx, followersPrefix+author, follower)
		return flush(batch)
	})
	if flush(1); failed != nil {
		return fmt.Errorf("load Redis: %w", failed)
	}
	return nil
}
