// Package linear lets clients push, move bookmarks and read at once, by two
// vcsd processes that serve one store, while processes are killed, stopped and
// continued, and checks that the history of their answers is linearizable:
// that each took effect at one moment between question and answer.
//
//	go test ./e2e/linear -v -duration 1h -timeout 2h
package linear
