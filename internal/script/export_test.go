package script

// Limits of the scripts, for tests.
const (
	MaxReaped = maxReaped
	MaxShown  = maxShown
)

// Said returns m without its proof.
func (m *Message) Said() Message {
	said := *m
	said.text, said.proof = "", ""
	return said
}
