package crew

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// failed is the word with which a member says why it gives up.
const failed = "failed"

// Called reports whether this process was started by Start and is to call Work.
func Called() bool { return os.Getenv(environment) != "" }

// A Boss is the process that started this one.
type Boss struct {
	orders chan string
	words  *json.Encoder
}

// Work decodes the job and does it with f, whose error is passed on. It returns the exit code. The
// process ends at once if the one that started it does.
func Work[Job any](f func(Job, *Boss) error) int {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	var job Job
	boss := &Boss{orders: make(chan string), words: json.NewEncoder(os.Stdout)}
	err := in.Decode(&job)
	if err == nil {
		go boss.listen(in)
		err = f(job, boss)
	}
	if err == nil {
		return 0
	}
	if boss.Say(failed, err.Error()) != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// listen takes orders until there is nobody to give them.
func (b *Boss) listen(in *json.Decoder) {
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			os.Exit(1)
		}
		b.orders <- m.Word
	}
}

// Listen returns the next order.
func (b *Boss) Listen() string { return <-b.orders }

// Await waits for one order and no other.
func (b *Boss) Await(order string) error {
	if heard := b.Listen(); heard != order {
		return fmt.Errorf("heard %q instead of %q", heard, order)
	}
	return nil
}

// Say tells the boss a word, and data with it unless that is nil.
func (b *Boss) Say(word string, data any) error {
	m := message{Word: word}
	if data != nil {
		var err error
		if m.Data, err = json.Marshal(data); err != nil {
			return err
		}
	}
	return b.words.Encode(m)
}
