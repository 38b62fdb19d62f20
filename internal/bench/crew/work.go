package crew

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/lockmw/go/internal/process"
)

// failed is the message in which a member reports its error.
const failed = "failed"

// A Parent is the process that started this one.
type Parent struct {
	orders chan string
	out    *json.Encoder
}

// Main lets Start run this program again: main or TestMain calls it before anything else. In a process of a crew it does not
// return: it runs f with its job, and sends f's error to the parent. Such a process ends as soon as its parent does.
func Main[Job any](f func(Job, *Parent) error) {
	process.ChildMain(func(job Job, orders *json.Decoder, out *json.Encoder) error {
		parent := &Parent{orders: make(chan string), out: out}
		go parent.receive(orders)
		err := f(job, parent)
		if err != nil {
			_ = parent.Send(failed, err.Error()) // the parent may have ended
		}
		return err
	})
}

// receive receives orders, and ends the process when there are no more.
func (p *Parent) receive(in *json.Decoder) {
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			os.Exit(1)
		}
		p.orders <- m.Name
	}
}

// Next returns the next order.
func (p *Parent) Next() string { return <-p.orders }

// Await waits for the next order, which must be this one.
func (p *Parent) Await(order string) error {
	if got := p.Next(); got != order {
		return fmt.Errorf("the order is %q instead of %q", got, order)
	}
	return nil
}

// Send sends a message, with data unless that is nil.
func (p *Parent) Send(name string, data any) error {
	m := message{Name: name}
	if data != nil {
		var err error
		if m.Data, err = json.Marshal(data); err != nil {
			return err
		}
	}
	return p.out.Encode(m)
}
