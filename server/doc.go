// Package server wires everything together: it finds repositories, opens each
// one once, answers HTTP requests for them by the wire protocol, and ends in
// good order. Its Run is the whole of the command.
package server
