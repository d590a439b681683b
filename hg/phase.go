package hg

import "fmt"

// A Phase tells how freely a changeset may still be changed. A changeset's
// phase is never below that of an ancestor (hg help phases).
type Phase uint8

// The phases that may stand in a phaseroots file. Those from Secret up are
// never exchanged.
const (
	Public   Phase = 0
	Draft    Phase = 1
	Secret   Phase = 2
	Archived Phase = 32
	Internal Phase = 96
)

// Valid reports whether p is one of the phases that Mercurial defines.
func (p Phase) Valid() bool {
	switch p {
	case Public, Draft, Secret, Archived, Internal:
		return true
	}
	return false
}

func (p Phase) String() string {
	switch p {
	case Public:
		return "public"
	case Draft:
		return "draft"
	case Secret:
		return "secret"
	case Archived:
		return "archived"
	case Internal:
		return "internal"
	}
	return fmt.Sprintf("phase-%d", uint8(p))
}
