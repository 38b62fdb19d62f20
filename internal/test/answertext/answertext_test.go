package answertext_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/answertext"
)

func TestAnswersAreReadFromTexts(t *testing.T) {
	v, _ := answertext.Parse("( 1 '1 ( nil 1.5 ) !ERR_no x_y").([]any)
	if len(v) != 5 || v[0] != int64(1) || v[1] != "1" || len(v[2].([]any)) != 2 || v[3] != answertext.Error("ERR no") || v[4] != "x y" {
		t.Errorf("%#v", v)
	}
	if token := answertext.Grant(answertext.Parse("( 1 7 '2 0 )")); token != 7 {
		t.Errorf("token %d", token)
	}
	if token := answertext.Grant(answertext.Parse("( 1 9223372036854775807 2 0 )")); token != 0 {
		t.Errorf("token %d", token)
	}
}
