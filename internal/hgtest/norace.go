//go:build !race

package hgtest

const raceEnabled = false
