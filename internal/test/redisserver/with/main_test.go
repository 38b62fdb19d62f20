package main

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
)

func TestCommandFindsTheServer(t *testing.T) {
	redistest.Redis(t) // skips without a redis-server
	script := `exec 3<>"/dev/tcp/${REDIS_ADDR/:/\/}" && echo PING >&3 && read -r answer <&3 && [[ $answer == +PONG* ]]`
	if err := run(t.Context(), []string{"bash", "-c", script}); err != nil {
		t.Error(err)
	}
}

func TestFailureOfTheCommandIsPassedOn(t *testing.T) {
	redistest.Redis(t)
	err := run(t.Context(), []string{"sh", "-c", "exit 7"})
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 7 {
		t.Errorf("the error is %v", err)
	}
}
