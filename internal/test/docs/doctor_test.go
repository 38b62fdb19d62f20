package docs

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
)

// examine returns the doctor's findings.
func examine(t *testing.T, rdb redis.UniversalClient) (findings []doctor.Finding) {
	for f := range doctor.Examine(t.Context(), rdb, doctor.Options{Prefix: "lockmw", Lease: 30 * time.Second}) {
		findings = append(findings, f)
	}
	return findings
}

func TestTheDoctorMissesNothingInTheACLLine(t *testing.T) {
	t.Parallel()
	rules, _, _ := aclLines(t)
	s := newACLServer(t, redistest.Redis(t))
	for _, f := range examine(t, s.user(t, "orders", rules)) {
		optional := strings.Contains(f.Saw, "+wait") || strings.Contains(f.Saw, "+config|get")
		if f.Verdict == doctor.Failure || f.Check == "rights" && f.Verdict != doctor.OK && !optional {
			t.Errorf("%+v", f)
		}
	}
}

func TestTheDoctorNamesMissingRulesOfTheACLLine(t *testing.T) {
	t.Parallel()
	rules, _, _ := aclLines(t)
	s := newACLServer(t, redistest.Redis(t))
	for i, rule := range rules {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			s.needs(t, rule)
			rdb := s.user(t, "without-"+rule[1:], append(rules[:i:i], rules[i+1:]...))
			for _, f := range examine(t, rdb) {
				if f.Verdict == doctor.OK {
					continue
				}
				for word := range strings.FieldsSeq(f.Remedy) {
					if strings.Trim(word, "';") == rule {
						return
					}
				}
			}
			t.Errorf("no finding names the missing %s: %+v", rule, examine(t, rdb))
		})
	}
}
