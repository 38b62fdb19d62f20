package script

import "github.com/redis/go-redis/v9"

// Two answers say that a run did nothing and is to be repeated: the server does not know the script, whose text is sent then, or
// the client does not trust the server, which is examined first. Between the two the server may forget its scripts, as by SCRIPT
// FLUSH. So the repetition is repeated, too, and neither answer reaches a caller who could not do anything about it.

// finish hands the answer to a single run of k over. It repeats the run first as long as that helps.
func (s *Sender) finish(k *Call, cmd redis.Cmder) {
	for examined := false; ; cmd = s.run(k) {
		err := cmd.Err()
		if didNothing(err) {
			k.didNothing()
		}
		switch {
		case isMissingScript(err) && !k.isWhole():
			k.sendWhole()
		case isUntrusted(err) && !examined:
			examined = true
			args := cmd.Args()
			if err := k.script.grants.examine(s.ctx, k.key(), args[len(args)-1]); err != nil {
				s.answer(k, k.reply(nil, err))
				return
			}
		default:
			s.Note(err)
			s.answer(k, k.reply(valueOf(cmd), err))
			return
		}
	}
}

// misses notes that the server did not know the script of g, and reports whether g is to be sent again.
func (g *group) misses() bool {
	if g.whole || !isMissingScript(g.cmd.Err()) {
		return false
	}
	g.missed++
	for _, k := range g.calls {
		k.didNothing()
	}
	return true
}

// sendScripts makes the first group with each script that its server did not know send the text. The others go out behind it in
// the same pipeline. A group that the server has answered so twice sends the text itself.
func (s *Sender) sendScripts(groups []group) {
	type known struct {
		node   *redis.Client
		script *Script
	}
	sent := make(map[known]bool)
	for i := range groups {
		g := &groups[i]
		if g.missed == 0 {
			continue
		}
		at := known{s.clusterNode(g.calls[0]), g.script()}
		g.whole = g.missed > 1 || !sent[at]
		sent[at] = true
	}
}
