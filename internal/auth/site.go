package auth

import (
	"errors"
	"fmt"
	"net/http"

	"fanfare/internal/id"
)

// Site identifies callers by the functions of the program that embeds Fanfare. The program has the sessions, so Fanfare
// sees no token. A nil function names nobody.
type Site struct {
	// User returns the user of a request, "" for nobody.
	User func(*http.Request) (string, error)
	// Service returns the service behind a request, "" for none. A service may act for, and delete, every user.
	Service func(*http.Request) (string, error)
}

const signIn = "nobody is signed in: sign in at this site"

// StrangerError means that a site names no caller of a request. Reason is for the caller.
type StrangerError struct {
	Reason string
	// Err is the error of the site's function, nil for none. It is for the log only.
	Err error
}

func (e *StrangerError) Error() string { return e.Reason }

func (e *StrangerError) Unwrap() error { return e.Err }

// Identify returns the caller of a request. Its error is a *StrangerError. The request of a service has no user of its own.
func (s Site) Identify(r *http.Request) (Identity, error) {
	service, err := named(s.Service, r)
	switch {
	case err != nil:
		return Identity{}, err
	case len(service) > maxService:
		return Identity{}, &StrangerError{Reason: fmt.Sprintf("the name of a service has at most %d bytes", maxService)}
	case service != "":
		return Identity{Service: service, Deletes: true}, nil
	}
	user, err := named(s.User, r)
	switch {
	case err != nil:
		return Identity{}, err
	case user == "":
		return Identity{}, &StrangerError{Reason: signIn}
	case !id.ValidUser(user):
		return Identity{}, &StrangerError{Reason: "the name in the session is not a user id (" + id.UserGrammar + ")"}
	}
	return Identity{User: user}, nil
}

// named returns the caller that a function of the site names, "" for nobody.
func named(who func(*http.Request) (string, error), r *http.Request) (string, error) {
	if who == nil {
		return "", nil
	}
	name, err := who(r)
	if errors.Is(err, http.ErrNoCookie) { // no session is no failure
		return "", nil
	}
	if err != nil {
		return "", &StrangerError{Reason: signIn, Err: err}
	}
	return name, nil
}
