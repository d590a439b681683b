package differential

import (
	"fmt"
	"slices"
	"strings"

	"vcsd/hg"
)

// A model knows all that clients may see of a repository, from what stock sends.
type model struct {
	texts   texts
	revs    []revision // changesets, by rev
	parents map[hg.Node][2]hg.Node
	clients map[string]map[key]bool // what a client has, by its heads
}

func newModel(revs []revision, known texts) *model {
	m := &model{texts: known, parents: map[hg.Node][2]hg.Node{}, clients: map[string]map[key]bool{}}
	for _, r := range revs {
		if r.log == "changelog" {
			m.revs = append(m.revs, r)
			m.parents[r.node] = [2]hg.Node{r.p1, r.p2}
		}
	}
	return m
}

// nodes returns the changesets by rev.
func (m *model) nodes() []hg.Node {
	var out []hg.Node
	for _, r := range m.revs {
		out = append(out, r.node)
	}
	return out
}

// ancestors returns those of nodes that exist, with all their ancestors.
func (m *model) ancestors(nodes []hg.Node) map[hg.Node]bool {
	seen := map[hg.Node]bool{}
	stack := slices.Clone(nodes)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		p, ok := m.parents[n]
		if !ok || seen[n] {
			continue
		}
		seen[n] = true
		stack = append(stack, p[0], p[1])
	}
	return seen
}

// client returns what a client has whose heads are these: their ancestors,
// the manifests these name, and the file revisions those name.
func (m *model) client(heads []hg.Node) (map[key]bool, error) {
	id := fmt.Sprint(heads)
	if has, ok := m.clients[id]; ok {
		return has, nil
	}
	has := map[key]bool{}
	for n := range m.ancestors(heads) {
		has[key{"changelog", n}] = true
		mf, err := hg.ParseNode(strings.SplitN(m.texts[key{"changelog", n}], "\n", 2)[0])
		if err != nil {
			return nil, err
		}
		k := key{"manifest", mf}
		if has[k] || mf.IsNull() {
			continue
		}
		has[k] = true
		if err := m.addFiles(has, m.texts[k]); err != nil {
			return nil, err
		}
	}
	m.clients[id] = has
	return has, nil
}

// addFiles notes the file revisions that a manifest names.
func (m *model) addFiles(has map[key]bool, manifest string) error {
	for line := range strings.Lines(manifest) {
		name, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if !ok || len(rest) < hg.NodeHexLen {
			return fmt.Errorf("manifest line %q", line)
		}
		n, err := hg.ParseNode(rest[:hg.NodeHexLen])
		if err != nil {
			return err
		}
		has[key{"file " + name, n}] = true
	}
	return nil
}
