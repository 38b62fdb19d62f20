package crew

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/lockmw/go/internal/test/process"
)

// failed is the word with which a member says why it gives up.
const failed = "failed"

// A Boss is the process that started this one.
type Boss struct {
	orders chan string
	words  *json.Encoder
}

// Main makes this program one that Start can start once more: main or TestMain calls it before anything
// else. In a process of a crew it does not return: it does the job with f, whose error is passed on.
// Such a process ends at once if the one that started it does.
func Main[Job any](f func(Job, *Boss) error) {
	process.ChildMain(func(job Job, orders *json.Decoder, words *json.Encoder) error {
		boss := &Boss{orders: make(chan string), words: words}
		go boss.listen(orders)
		err := f(job, boss)
		if err != nil {
			_ = boss.Say(failed, err.Error()) // the boss may have gone
		}
		return err
	})
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
