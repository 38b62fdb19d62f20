package rivermw_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

func ExampleBy() {
	byCustomer := rivermw.By("customer", rivermw.Args(func(a InvoiceArgs) string { return a.Customer }))
	for _, args := range []string{`{"customer":"7"}`, `{}`} {
		fmt.Println(byCustomer(context.Background(), &rivertype.JobRow{EncodedArgs: []byte(args)}))
	}
	// Output:
	// customer:7 <nil>
	//  part 1 of key "customer": lockmw: invalid key: it is empty
}

// A busy lock snoozes the job, which spends no attempt.
func ExampleWithLock() {
	locks := lockmw.NewLocal()
	lock := rivermw.WithLock(locks, rivermw.Const("report"), lockmw.WithWait(0), rivermw.WithSnooze(time.Minute, time.Minute))
	job := &rivertype.JobRow{ID: 7, Kind: "report", EncodedArgs: []byte(`{}`)}

	_ = lock.Work(context.Background(), job, func(context.Context) error {
		fmt.Println("the report is made")
		other := &rivertype.JobRow{ID: 8, Kind: "report", EncodedArgs: []byte(`{}`)}
		err := lock.Work(context.Background(), other, func(context.Context) error { return nil })
		if snooze, ok := errors.AsType[*rivertype.JobSnoozeError](err); ok {
			fmt.Println("snoozed for", snooze.Duration, "because of its lock:", rivermw.IsBusy(err))
		}
		return nil
	})
	// Output:
	// the report is made
	// snoozed for 1m0s because of its lock: true
}

// Middleware around the lock leaves snoozed jobs out of its log.
func ExampleIsBusy() {
	locks := lockmw.NewLocal()
	_, hold, err := locks.Lock(context.Background(), "customer:7")
	if err != nil {
		panic(err)
	}
	defer func() { _ = hold.Unlock() }()
	lock := rivermw.WithLock(locks, rivermw.Const("customer", "7"), lockmw.WithWait(0))
	err = lock.Work(context.Background(), &rivertype.JobRow{ID: 7, Kind: "invoice"}, func(context.Context) error { return nil })
	fmt.Println(rivermw.IsBusy(err), err)
	// Output: true rivermw: snoozed: lockmw: try_lock "customer:7" for invoice/7: lock is busy
}
