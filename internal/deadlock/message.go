package deadlock

import "encoding/json"

// MessagePrefix begins the messages of detectors.
const MessagePrefix = "deadlock "

// A message is a message between detectors.
type message struct {
	Number uint64 `json:"n,omitempty"` // of a question and its answer
	From   string `json:"f,omitempty"` // the inbox for the answer
	Ask    *ask   `json:"q,omitempty"`
	Answer *Graph `json:"a,omitempty"`
	Check  string `json:"x,omitempty"` // the id of a wait that is to be checked
}

func (m *message) String() string {
	text, _ := json.Marshal(m) // cannot fail: strings, numbers, and lists and maps of them
	return string(text)
}

// parse reads a message.
func parse(body string) (m message, ok bool) {
	return m, json.Unmarshal([]byte(body), &m) == nil
}
