// Package histories compares the answers to clients during the storms of the simulation with models of
// registers: an edge between two users and a user's reaction to a post. Each call has to have happened at one
// instant between its beginning and its end (porcupine).
package histories
