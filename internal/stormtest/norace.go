//go:build !race

package stormtest

const raceDetector = false
