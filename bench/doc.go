// Command bench measures vcsd beside stock Mercurial: hg serve, and hgweb in
// several worker processes under gunicorn.
//
//	go run ./bench -quick
//
// prepares synthetic histories (the same ones each time) and any repository
// given, starts the servers on ports of 127.0.0.1, sends the same requests to
// each in turn, and writes tables and plots. A figure is only taken of answers
// that were checked: their status, and that they hold what was asked for.
//
// What the servers cost is what the kernel says (package kernel), with all their
// processes, and with what they do after an answer until they are quiet. Clients
// are goroutines that keep what they got and decode it when the clock stands.
package main
