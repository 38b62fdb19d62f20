package deadlock

import "encoding/json"

// Word is what the messages of detectors begin with.
const Word = "deadlock "

// A message is what a detector sends to another one.
type message struct {
	Number uint64 `json:"n,omitempty"` // of an ask, and of its answer
	From   string `json:"f,omitempty"` // the inbox for the answer
	Ask    *ask   `json:"q,omitempty"`
	Answer *Graph `json:"a,omitempty"`
	Look   string `json:"x,omitempty"` // the id of a wait that is to be looked at
}

func (m *message) String() string {
	text, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(text)
}

// parse reads a message.
func parse(body string) (m message, ok bool) {
	return m, json.Unmarshal([]byte(body), &m) == nil
}
