//go:build broken_answer

package refs

// missingMeansDone takes a publication without an answer for one that took place:
// e2e/broken proves that this is noticed.
const missingMeansDone = true
