package journal

import "vcsd/internal/vfs"

// TouchedFiles returns a set of these files, which somebody else may have made
// or written, with all directories above them.
func TouchedFiles(names ...string) *Touched {
	t := NewTouched()
	for _, name := range names {
		t.addFile(name)
		for d := vfs.Dir(name); !t.dirs[d]; d = vfs.Dir(d) {
			t.addDir(d)
		}
	}
	return t
}

// Files returns the files that the record writes to, in order, some perhaps
// more than once.
func (r *Record) Files() []string {
	var names []string
	for i := range r.Writes {
		names = append(names, r.Writes[i].Path)
		if data := r.Writes[i].DataPath; data != "" {
			names = append(names, data)
		}
	}
	return names
}
