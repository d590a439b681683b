//go:build !race

package revlog

const raceEnabled = false
