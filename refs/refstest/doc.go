// Package refstest is the suite that every way to run refs must pass.
package refstest
