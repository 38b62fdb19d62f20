package engine

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// The protocol's times, as the scripts know them.
const (
	pollInterval = 750 * time.Millisecond // a waiter unseen for three of these is dead
	acceptWindow = 3 * time.Second        // how long a grant waits for its process
	queueTTL     = time.Minute            // how long a queue outlives the last sign of life
	doneTTL      = time.Minute            // how long ids that are over are remembered
	doneMillis   = int64(doneTTL / time.Millisecond)
	budget       = 32  // how many dead tickets one run removes
	manyReaders  = 128 // how many one run lets in
	shownHolders = 8   // how many a caller is told of
)

var (
	//go:embed hold.lua
	holdLua string
	//go:embed readers.lua
	readersLua string
	//go:embed settle.lua
	settleLua string
	//go:embed acquire.lua
	acquireLua string
	//go:embed poll.lua
	pollLua string
	//go:embed renew.lua
	renewLua string
	//go:embed release.lua
	releaseLua string
	//go:embed acquire_batch.lua
	acquireBatchLua string
	//go:embed release_batch.lua
	releaseBatchLua string
	//go:embed downgrade.lua
	downgradeLua string
	//go:embed cancel.lua
	cancelLua string
	//go:embed force.lua
	forceLua string
)

// A script is a Lua script with the shared parts put in.
type script struct {
	source, sha string
	asked       any   // sha, as an argument
	bulk        *bulk // does plain runs many at a time; nil: there is no such script
}

type scripts struct {
	acquire, poll, renew, release, downgrade, cancel, force *script
}

// newScripts assembles the scripts. single says that the server is a plain one, where a PUBLISH that
// reaches nobody means that nobody listens.
func newScripts(single bool) scripts {
	constants := fmt.Sprintf("local POLL, ACCEPT, QUEUE_TTL = %d, %d, %d\nlocal BUDGET, READERS, SHOWN, SINGLE = %d, %d, %d, %t\n",
		pollInterval.Milliseconds(), acceptWindow.Milliseconds(), queueTTL.Milliseconds(),
		budget, manyReaders, shownHolders, single)
	parts := strings.NewReplacer("--@hold\n", constants+holdLua, "--@readers\n", readersLua, "--@settle\n", settleLua)
	assemble := func(source string) *script {
		source = parts.Replace(source)
		sum := sha1.Sum([]byte(source)) // what EVALSHA asks for
		sha := hex.EncodeToString(sum[:])
		return &script{source: source, sha: sha, asked: sha}
	}
	all := scripts{
		acquire: assemble(acquireLua), poll: assemble(pollLua), renew: assemble(renewLua),
		release: assemble(releaseLua), downgrade: assemble(downgradeLua),
		cancel: assemble(cancelLua), force: assemble(forceLua),
	}
	all.acquire.bulk = &bulk{
		script: assemble(acquireBatchLua), plain: 14,
		sharedKeys: []int{6}, keys: []int{3, 4, 8}, sharedArgs: []int{11}, args: []int{9, 10, 12},
	}
	all.release.bulk = &bulk{script: assemble(releaseBatchLua), plain: 9, keys: []int{3, 4}, args: []int{8}}
	return all
}
