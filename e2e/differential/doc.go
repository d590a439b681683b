// Package differential sends the same requests to stock hg serve and to vcsd,
// which serve the same directory, and compares what the answers mean: texts by
// their bytes, bundles by the revisions in them. Where vcsd is right to answer
// otherwise, the tests say so and why, beside the case.
//
// The default run is small. More, and others:
//
//	go test ./e2e/differential -requests 10000 -seed 7
package differential
