// Package histories checks the answers to clients during the storms of the simulation against models of
// registers. A register is an edge between two users, or a user's reaction to a post. Each call has to
// have happened at one instant between its begin and its end (porcupine).
package histories
