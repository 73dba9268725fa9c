// Package histories holds what clients saw during the storms of the simulation against models of
// registers: an edge between two users and a user's reaction to a post. Each call has to have happened at
// one instant between its begin and its end (porcupine).
package histories
