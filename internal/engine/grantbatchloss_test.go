package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// The server has lost the lock and grants it to a member of the batch: the holder is notified and does not pass it on.
func TestAGrantToAMemberOfABatchEndsItsLease(t *testing.T) {
	for _, passes := range []int{0, 1} {
		t.Run(fmt.Sprint(passes), func(t *testing.T) {
			inLine(t, core.Fair, 4, func(b *lineUp) {
				h := b.begin()
				for i := range passes {
					b.release(h)
					h = b.wantGranted("the next one", b.calls[i+1])
				}
				b.rdb.Del(b.Context(), b.driver.Keys.Holder())
				b.driver.Settle()
				b.wantLost("the holder", b.calls[passes].requester, core.ErrLost)
				if _, err := h.Release(time.Second); !errors.Is(err, core.ErrLost) {
					b.Errorf("Release: %v", err)
				}
				h = b.wantGranted("the next one", b.calls[passes+1])
				if rest := b.calls[passes+2:]; len(rest) > 0 {
					b.wantWaiting("one behind it", rest[0])
				}
				b.follow(h, b.calls[passes+2:]...)
			})
		})
	}
}

// A grant that a poll finds, or one that is answered late, says the same.
func TestAPollOfAMemberOfABatchEndsItsLease(t *testing.T) {
	inLine(t, core.Fair, 3, func(b *lineUp) {
		b.begin()
		h := b.e.ids.leases()[0]
		b.rdb.HSet(b.Context(), b.driver.Keys.Tickets(), h.grantBatch.next[0].id.String(), "fair 30000 1r nobody owner 1") // no message reaches it
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		time.Sleep(2 * script.PollInterval)
		b.wantLost("the first", b.calls[0].requester, core.ErrLost)
		b.follow(b.wantGranted("the second", b.calls[1]), b.calls[2])
	})
}

// The same is true of one to whom the lease was passed meanwhile.
func TestAPollOfAServedMemberEndsItsLease(t *testing.T) {
	inLine(t, core.Fair, 2, func(b *lineUp) {
		h := b.begin()
		time.Sleep(script.AcceptWindow / 2)                                                                                      // it is renewed
		b.rdb.HSet(b.Context(), b.driver.Keys.Tickets(), h.lease.grantBatch.next[0].id.String(), "fair 30000 1r nobody owner 1") // no message reaches it
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		late := b.wire.HoldReply(b.e.scripts.All()["poll"].SHA)
		<-late.Caught()
		b.release(h)
		b.wantGranted("the second", b.calls[1])
		late.Deliver()
		b.wantLost("the second", b.calls[1].requester, core.ErrLost)
	})
}

// So does any other answer or message that no caller waits for.
func TestAGrantToAServedMemberEndsItsLease(t *testing.T) {
	for what, grant := range map[string]func(b *lineUp, served *request){
		"a message": func(b *lineUp, _ *request) { b.driver.Settle() },
		"a late answer": func(b *lineUp, served *request) {
			b.driver.Cancel(served.id.String())
			b.rdb.Del(b.Context(), b.driver.Keys.Done(served.id.String()))
			late := scripttest.Acquire{ID: served.id.String(), Mode: core.Fair, Process: "nobody"}
			served.onLateAnswer(b.driver.Send(late.Operation(b.driver)))
		},
	} {
		t.Run(what, func(t *testing.T) {
			inLine(t, core.Fair, 2, func(b *lineUp) {
				h := b.begin()
				b.release(h)
				served := b.wantGranted("the second", b.calls[1]).lease.grantBatch.served[0]
				b.rdb.Del(b.Context(), b.driver.Keys.Holder())
				grant(b, served)
				b.wantLost(what, b.calls[1].requester, core.ErrLost)
				b.driver.Cancel(served.id.String())
				b.rdb.Del(b.Context(), b.driver.Keys.Done(served.id.String()))
			})
		})
	}
}

// A lock that is held for long, or whose renewals are not answered, goes back to the server.
func TestALeaseIsPassedOnForAWhile(t *testing.T) {
	for what, wait := range map[string]func(b *lineUp){
		"a third of the lease": func(*lineUp) { time.Sleep(scripttest.Lease/3 + time.Second) },
		"an extension": func(b *lineUp) {
			if err := b.calls[0].grant.Extend(b.Context(), 2*scripttest.Lease); err != nil {
				b.Fatal(err)
			}
		},
		"without a renewal": func(b *lineUp) {
			b.wire.Silence()
			time.Sleep(script.AcceptWindow / 2)
			b.wire.Restore()
			synctest.Wait()
		},
	} {
		t.Run(what, func(t *testing.T) {
			inLine(t, core.Fair, 2, func(b *lineUp) {
				h := b.begin()
				wait(b)
				b.sent()
				b.release(h)
				if n := b.sent()["release"]; n != 1 {
					b.Errorf("after %s it was released %d times", what, n)
				}
				b.release(b.wantGranted("the second", b.calls[1]))
			})
		})
	}
}

// A renewal finds that a lease is lost whose served members are still in the queue.
func TestALostLeaseLeavesNoTicketInTheQueue(t *testing.T) {
	inLine(t, core.Fair, 3, func(b *lineUp) {
		h := b.begin()
		b.release(h)
		h = b.wantGranted("the second", b.calls[1])
		b.rdb.HSet(b.Context(), b.driver.Keys.Holder(), "id", "somebody") // who has no ticket
		served := h.lease.grantBatch.servedIDs(0)
		h.lease.c.shard.mu.Lock()
		h.lease.renewAfter(clock.Now(), 0)
		h.lease.reschedule()
		h.lease.c.shard.mu.Unlock()
		b.wantLost("the second", b.calls[1].requester, core.ErrLost)
		if queue := b.queue(); slices.Contains(queue, served[0]) || len(queue) != 1 {
			b.Errorf("the queue is %q, and %q were served", queue, served)
		}
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		b.driver.Settle()
		b.release(b.wantGranted("the third", b.calls[2]))
	})
}

// A release in vain also removes the served members.
func TestAReleaseInVainLeavesNoTicketInTheQueue(t *testing.T) {
	inLine(t, core.Fair, 2, func(b *lineUp) {
		h := b.begin()
		b.release(h)
		h = b.wantGranted("the second", b.calls[1])
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		if _, err := h.Release(time.Second); !errors.Is(err, core.ErrLost) {
			b.Errorf("Release: %v", err)
		}
		synctest.Wait()
		if queue := b.queue(); len(queue) > 0 {
			b.Errorf("the queue is %q", queue)
		}
	})
}

// A release whose answer is lost is repeated.
func TestAGrantBatchEndsThoughTheAnswerToItsReleaseIsLost(t *testing.T) {
	inLine(t, core.Fair, 3, func(b *lineUp) {
		behind := b.call(b.other, b.requester(core.Fair))
		h := b.begin()
		for _, c := range b.calls[1:] {
			b.release(h)
			h = b.wantGranted("the next one", c)
		}
		b.wire.LoseReply(b.e.scripts.All()["release"].SHA)
		b.release(h)
		b.release(b.wantGranted("one of another process", behind))
	})
}

// A process that dies in the middle of a grant batch delays others no longer than its lease.
func TestADeadProcessEndsItsGrantBatch(t *testing.T) {
	inLine(t, core.Fair, 4, func(b *lineUp) {
		behind := b.call(b.other, b.requester(core.Fair))
		h := b.begin()
		b.release(h)
		b.wantGranted("the second", b.calls[1])
		b.wire.Cut()
		start := time.Now()
		<-behind.done
		if took := time.Since(start); behind.err != nil || took > scripttest.Lease+3*script.PollInterval+time.Second {
			b.Errorf("the one behind has the lock after %v, %v", took, behind.err)
		}
		b.wantLost("the second", b.calls[1].requester, core.ErrLost)
		for _, c := range b.calls[2:] {
			b.wantWaiting("one of a process that is gone", c)
		}
		b.wire.Restore()
		time.Sleep(10 * script.PollInterval) // they are back in their places
		b.release(behind.grant)
		b.follow(b.wantGranted("one of a process that is back", b.calls[2]), b.calls[3])
	})
}

// The server has lost the lock, and this process was granted it anew: the rest of the batch waits for that lease.
func TestALeaseIsNotPassedOnAfterALaterGrant(t *testing.T) {
	inLine(t, core.Fair, 3, func(b *lineUp) {
		h := b.begin()
		last := h.lease.tokens.Last()
		b.rdb.FlushAll(b.Context())
		b.warm()
		later := b.wantGranted("a later caller", b.call(b.e, b.requester(core.Fair)))
		if later.Token() <= last {
			b.Errorf("token %d after the tokens of a batch up to %d", later.Token(), last)
		}
		if _, err := h.Release(time.Second); !errors.Is(err, core.ErrLost) {
			b.Errorf("Release: %v", err)
		}
		b.wantWaiting("the second", b.calls[1])
		time.Sleep(2 * script.PollInterval) // they are back in the queue
		b.release(later)
		b.follow(b.wantGranted("the second", b.calls[1]), b.calls[2])
	})
}

// An operator releases the lock by force in the middle of a grant batch: its present holder is notified, and does not pass it on.
func TestTheLockIsReleasedByForceInTheMiddleOfAGrantBatch(t *testing.T) {
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inLine(t, core.Fair, n, func(b *lineUp) {
				h := b.begin()
				first := h.Token() // which an Inspector shows
				b.release(h)
				b.wantGranted("the second", b.calls[1])
				time.Sleep(2 * servedFor) // with two calls, the queue has no ticket left whose grant would also show it
				b.driver.Want("force", b.driver.Force(first, "owner"), script.Done)
				b.wantLost("the second", b.calls[1].requester, core.ErrLost)
				if n > 2 {
					b.follow(b.wantGranted("the third", b.calls[2]), b.calls[3:]...)
				}
			})
		})
	}
}

// The message of a grant comes again: in the middle of its batch, and after its end.
func TestTheMessageOfAGrantBatchIsRepeated(t *testing.T) {
	inLine(t, core.Fair, 3, func(b *lineUp) {
		h := b.begin()
		run := append([]string{h.lease.id.String()}, b.queue()...)
		again := b.e.prove(fmt.Sprintf("grant %s %d %d 3 2 %s", strings.Join(run, ","), h.Token(), h.Token(), b.driver.Keys.Holder()))
		for _, c := range b.calls[1:] {
			b.rdb.Publish(b.Context(), b.inbox().Name, again)
			synctest.Wait()
			b.release(h)
			h = b.wantGranted("the next one", c)
		}
		b.release(h)
		b.rdb.Publish(b.Context(), b.inbox().Name, again)
		b.wantFree()
	})
}

// The message of a grant names calls of another key: no script wrote it.
func TestAGrantBatchIsForOneKey(t *testing.T) {
	inLine(t, core.Fair, 1, func(b *lineUp) {
		const key = "item:2"
		of := func() *requester { a := newRequester(key); a.Mode = core.Fair; return a }
		held := of().acquire(b.T, b.other)
		foreign := b.call(b.e, of())
		keys := b.e.layout.KeySet(key)
		id := b.rdb.ZRange(b.Context(), keys.Queue(), 0, 0).Val()[0]
		token := b.held.Token() + int64(time.Second/time.Microsecond)
		b.rdb.Publish(b.Context(), b.inbox().Name, b.e.prove(fmt.Sprintf("grant %s,%s %d %d 2 0 %s", b.queue()[0], id, token, token, b.driver.Keys.Holder())))
		h := b.wantGranted("the first", b.calls[0])
		if _, err := h.Release(time.Second); err != nil && !errors.Is(err, core.ErrLost) {
			b.Error(err)
		}
		b.wantWaiting("one of another key", foreign)
		b.release(held)
		b.release(b.wantGranted("one of another key", foreign))
		b.release(b.held)
	})
}

// A message names more calls than it has tokens for: no script wrote it.
func TestNoCallHasATokenThatIsNotReserved(t *testing.T) {
	inLine(t, core.Fair, 2, func(b *lineUp) {
		token := b.held.Token() + int64(time.Second/time.Microsecond)
		run := strings.Join(b.queue(), ",")
		b.rdb.Publish(b.Context(), b.inbox().Name, b.e.prove(fmt.Sprintf("grant %s %d %d 1 1 %s", run, token, token, b.driver.Keys.Holder())))
		h := b.wantGranted("the first", b.calls[0])
		if _, err := h.Release(time.Second); err != nil && !errors.Is(err, core.ErrLost) {
			b.Error(err)
		}
		b.wantWaiting("the second", b.calls[1])
		b.release(b.held)
		b.release(b.wantGranted("the second", b.calls[1]))
	})
}

// A grant names members of a batch whose lease has not ended in this process: the server has ended that lease.
func TestAGrantThatNamesMembersOfABatchEndsItsLease(t *testing.T) {
	inLine(t, core.Fair, 4, func(b *lineUp) {
		id := b.queue()[0]
		b.rdb.ZRem(b.Context(), b.driver.Keys.Queue(), id)
		b.rdb.HDel(b.Context(), b.driver.Keys.Tickets(), id)
		time.Sleep(time.Millisecond)
		b.release(b.held)
		h := b.wantGranted("the second", b.calls[1])
		time.Sleep(2 * script.PollInterval) // the first is back in its place, in front of the batch
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		b.driver.Settle()
		first := b.wantGranted("the first", b.calls[0])
		if first.lease == h.lease || len(first.lease.grantBatch.next) != 2 {
			b.Fatalf("its batch has %d calls", len(first.lease.grantBatch.next))
		}
		b.wantLost("the second", b.calls[1].requester, core.ErrLost)
		b.follow(first, b.calls[2:]...)
	})
}

// Releases that go out together remove the served members. The release of a grant batch is separate.
func TestAGrantBatchEndsTogetherWithOtherHolds(t *testing.T) {
	inLine(t, core.Fair, 2, func(b *lineUp) {
		b.e.sender.SetBatching(true)
		other := newRequester("item:2").acquire(b.T, b.e)
		h := b.begin()
		b.release(h)
		h = b.wantGranted("the second", b.calls[1])
		b.sent()
		for _, r := range b.e.ReleaseAll([]core.Hold{other, h}, time.Second) {
			if r.Err != nil {
				b.Error(r.Err)
			}
		}
		b.wantSent("two releases", "release", "release")
		b.wantFree()
	})
}
