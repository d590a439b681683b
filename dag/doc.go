// Package dag answers questions about the graph of revisions: heads,
// ancestors, descendants, and what one side of an exchange is missing. It
// knows only parents; a parent's rev is below that of its children, as in
// every revlog.
//
// Everywhere hg.NullRev among the revs of an argument is passed over, and the
// order and repetition of an argument's revs don't matter. Revs that are not
// below Graph.Len panic in the Graph or are taken for revisions without
// relatives: callers check first. Functions may run at once on one Graph if
// its methods may; a Set belongs to one goroutine while it is changed.
package dag
