//go:build race

package stormtest

const raceDetector = true
