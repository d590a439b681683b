// Package report turns measurements into a table, a file for machines, and
// plots. It measures nothing.
package report
