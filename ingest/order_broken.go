//go:build broken_order

package ingest

// inOrder swaps the steps: e2e/broken proves that this is noticed.
func inOrder(apply, mark func() error) error {
	if err := mark(); err != nil {
		return err
	}
	return apply()
}
