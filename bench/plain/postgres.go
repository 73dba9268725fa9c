package plain

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fanfare/internal/id"
)

// tables has a row for each entry of a home, like the entries of a timeline.
const tables = `
CREATE TABLE users (id text PRIMARY KEY, name text NOT NULL, posts bigint NOT NULL DEFAULT 0);
CREATE TABLE follows (author text, follower text, PRIMARY KEY (author, follower));
CREATE TABLE posts (id text PRIMARY KEY, author text NOT NULL, body text NOT NULL, created_at timestamptz NOT NULL);
CREATE INDEX ON posts (author, id);
CREATE TABLE homes (reader text, post text, PRIMARY KEY (reader, post));`

type onPostgres struct {
	db  *pgxpool.Pool
	ids *id.Generator
}

// OnPostgres returns the application on a PostgreSQL that LoadPostgres filled.
func OnPostgres(db *pgxpool.Pool) http.Handler {
	a := &onPostgres{db, id.NewGenerator(time.Now)}
	mux := newMux()
	mux.HandleFunc("POST /v1/posts", func(w http.ResponseWriter, r *http.Request) {
		p, err := a.post(r)
		reply(w, http.StatusCreated, p, err)
	})
	return mux
}

// post writes the post, its author's count and all entries in one transaction.
func (a *onPostgres) post(r *http.Request) (post, error) {
	p, err := newPost(r, a.ids)
	if err != nil {
		return p, err
	}
	ctx := r.Context()
	err = pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO posts VALUES ($1, $2, $3, $4)`, p.ID, p.AuthorID, p.Text, p.CreatedAt); err != nil {
			return err
		}
		counted, err := tx.Exec(ctx, `UPDATE users SET posts = posts + 1 WHERE id = $1`, p.AuthorID)
		switch {
		case err != nil:
			return err
		case counted.RowsAffected() == 0:
			return errAbsent
		}
		_, err = tx.Exec(ctx, `INSERT INTO homes SELECT follower, $2::text FROM follows WHERE author = $1 UNION ALL SELECT $1, $2`, p.AuthorID, p.ID)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("write the post: %w", err)
	}
	return p, nil
}

// LoadPostgres makes the tables, with users and their followers.
func LoadPostgres(ctx context.Context, db *pgxpool.Pool, users []string, follows func(yield func(follower, author string) bool)) error {
	if _, err := db.Exec(ctx, tables); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	names := make([][]any, 0, len(users))
	for _, u := range users {
		names = append(names, []any{u, "User " + u})
	}
	var edges [][]any
	follows(func(follower, author string) bool {
		edges = append(edges, []any{author, follower})
		return true
	})
	if _, err := db.CopyFrom(ctx, pgx.Identifier{"users"}, []string{"id", "name"}, pgx.CopyFromRows(names)); err != nil {
		return fmt.Errorf("load the users: %w", err)
	}
	if _, err := db.CopyFrom(ctx, pgx.Identifier{"follows"}, []string{"author", "follower"}, pgx.CopyFromRows(edges)); err != nil {
		return fmt.Errorf("load the follows: %w", err)
	}
	if _, err := db.Exec(ctx, `ANALYZE`); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return nil
}
