//go:build !broken_answer

package refs

// missingMeansDone is false: a publication without an answer is asked for.
const missingMeansDone = false
