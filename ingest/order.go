//go:build !broken_order

package ingest

// inOrder runs the steps of linking: the marker says what the store holds, so
// the store comes first.
func inOrder(apply, mark func() error) error {
	if err := apply(); err != nil {
		return err
	}
	return mark()
}
